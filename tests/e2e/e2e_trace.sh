#!/bin/bash
# lockstep trace info, convert, generate, slice and fetch, as typed.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
t=$tmp/trace
mkdir "$t"
cat >"$t/small.csv" <<'END'
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
END

hash_of() { "$LOCKSTEP" trace info "$@" --json | jq -r .workload_hash; }

# ---- info
run trace info "$t/small.csv"
expect "info succeeds" same "$status" 0
expect "info counts rows" has "$out" "3 kept of 3"
expect "info shows the hash" has "$out" "workload hash"
run trace info "$t/small.csv" --json
expect "info --json" holds "$out" '.requests == 3 and .format == "azure" and .total_input_tokens == 1649
	and .input_tokens.p50 == 396 and .workload_hash != null and .prefix_ideal_block_hit_ratio == null'
run trace info "$t/small.csv" --json --num-prompts 2 --replay-speedup 2
expect "info of a shaped trace" holds "$out" '.requests == 2 and (.duration_s - 2.1572895 | fabs) < 1e-9'
run trace info --dataset-name sample:azure --json
expect "the bundled sample" holds "$out" '.requests == 2000'
run trace info --dataset-name sample:sharegpt
expect "estimated lengths are said" has "$out" "ESTIMATED"
expect "an unknown sample" refused 'there is no sample "azuer" (did you mean azure?)' trace info --dataset-name sample:azuer
expect "an unknown data set" refused "did you mean mooncake?" trace info --dataset-name moncake "$t/small.csv"
expect "no trace" refused "no trace given" trace info
expect "two traces" refused "one word too many" trace info "$t/small.csv" "$t/small.csv"
echo "2023-11-16 18:15:52.0,3.5,1" >>"$t/small.csv"
expect "a bad row names file and line" refused "small.csv:5" trace info "$t/small.csv"
run trace info --on-bad-row skip "$t/small.csv"
expect "a bad row may be left out" has "$out" "3 kept of 4"
sed -i '$d' "$t/small.csv"

# ---- convert
run trace convert "$t/small.csv" "$t/small.jsonl"
expect "convert to lockstep" same "$status" 0
expect "the same workload" same "$(hash_of "$t/small.jsonl")" "$(hash_of "$t/small.csv")"
run trace convert "$t/small.jsonl" "$t/again.jsonl"
expect "the native format is kept byte for byte" cmp "$t/small.jsonl" "$t/again.jsonl"
run trace convert "$t/small.csv" "$t/vidur.csv"
expect "a name that ends in .csv is Vidur's" same "$(head -1 "$t/vidur.csv")" arrived_at,num_prefill_tokens,num_decode_tokens
run trace convert --to azure --json "$t/small.csv" "$t/azure.csv"
expect "convert --json" holds "$out" '.format == "azure" and .requests == 3 and .lost == []'
run trace convert "$t/small.csv" -
expect "- is standard output" same "$out" "$(cat "$t/small.jsonl")"
expect "the report then goes to stderr" has "$err" "workload hash"
expect "no file to write" refused "no file to write" trace convert "$t/small.csv"
run trace convert "$t/small.csv" /dev/full/x
expect "an impossible file" test "$status" -eq 1
printf '{"timestamp": 5, "input_length": 700, "output_length": 3, "hash_ids": [18446744073709551615, 2]}\n' >"$t/m.jsonl"
run trace convert "$t/m.jsonl" "$t/m.csv"
expect "what is lost is said" has "$out" "dropped: hash ids of 1 requests"
run trace convert --to mooncake "$t/m.jsonl" "$t/m2.jsonl"
expect "64-bit hash ids" has "$(cat "$t/m2.jsonl")" "[18446744073709551615, 2]"

# ---- generate
run trace generate --num-prompts 500 --seed 4 --turns uniform:1,4 --system-prompt-len 50 "$t/g1.jsonl"
expect "generate" same "$status" 0
run trace generate --num-prompts 500 --seed 4 --turns uniform:1,4 --system-prompt-len 50 "$t/g2.jsonl"
expect "the same seed, the same file" cmp "$t/g1.jsonl" "$t/g2.jsonl"
run trace generate --num-prompts 500 --seed 5 --turns uniform:1,4 --system-prompt-len 50 "$t/g3.jsonl"
expect "another seed, another file" test "$(cmp "$t/g1.jsonl" "$t/g3.jsonl" >/dev/null; echo $?)" -eq 1
run trace info --json "$t/g1.jsonl"
expect "sessions and sharing" holds "$out" '.requests == 500 and .sessions > 100 and .dependents > 200
	and .prefix_ideal_block_hit_ratio > 0.3 and .longest_chain == 4'
run trace generate --num-prompts 300 --input-len "resample:$t/small.csv" --output-len "resample:$t/small.csv" "$t/r.csv"
expect "resampled pairs" test "$(tail -n +2 "$t/r.csv" | cut -d, -f2,3 | sort -u | tr '\n' ' ')" = "374,44 396,109 879,55 "
run trace generate --arrivals constant --request-rate 4 --num-prompts 9 --input-len 5 --output-len 6 -
expect "constant arrivals" has "$out" '"arrival_s":0.25,"input_tokens":5,"output_tokens":6'
expect "a bad distribution" refused "is not of the form uniform:LO,HI" trace generate --input-len uniform:5 "$t/x"
expect "a ramp to nowhere" refused "needs --request-rate-end" trace generate --arrivals ramp "$t/x"
expect "nothing is left behind" test ! -e "$t/x"

# ---- generate agentic
run trace generate agentic --workflows 5 --branches 3 --rounds 2 -o "$t/a1.jsonl"
expect "agents" same "$status" 0
run trace generate agentic --workflows 5 --branches 3 --rounds 2 "$t/a2.jsonl"
expect "the same agents" cmp "$t/a1.jsonl" "$t/a2.jsonl"
run trace info --json "$t/a1.jsonl"
expect "agents branch and are reviewed" holds "$out" '.requests == 30 and .sessions == 5 and .dependents == 15
	and .longest_chain == 2 and .prefix_ideal_block_hit_ratio > 0.5'
run trace generate agentic --workflows 1 --branches 2 --depth 2 --tool-time 1.5 --output-len 7 --review-len 3 -
expect "levels join" has "$out" '"after":["1/1.2.1","1/1.2.2"],"delay_s":1.5'
expect "agents without a file" refused "no file to write" trace generate agentic
expect "resampled agents" refused "cannot be resampled" trace generate agentic --review-len resample:x -o "$t/x"
expect "agents that are too many" refused "are too many" trace generate agentic --workflows 1000000000 -o "$t/x"

# ---- slice
run trace slice --start 4 --end 4.5 "$t/small.csv" "$t/s.jsonl"
expect "slice" same "$(cat "$t/s.jsonl")" '{"id":"3","arrival_s":0,"input_tokens":396,"output_tokens":109}'
run trace slice --every 2 "$t/small.csv" -
expect "every second" lines "$out" 2
expect "an empty slice" refused "no request is left" trace slice --start 100 "$t/small.csv" "$t/x"
expect "a slice backwards" refused "before it starts" trace slice --start 9 --end 2 "$t/small.csv" "$t/x"

# ---- fetch
run trace fetch --list
expect "fetch --list" has "$out" "azure-2023-conv"
run trace fetch --list --json
expect "fetch --list --json" holds "$out" '[.traces[].name] | index("sharegpt") and index("mooncake-toolagent")'
expect "an unknown name" refused "did you mean sharegpt?" trace fetch sharegtp
expect "no name" refused "which trace?" trace fetch
expect "a checksum that is none" refused "64 hexadecimal digits" trace fetch sharegpt --sha256 abc
run trace fetch azure-2023-conv --url-base http://127.0.0.1:1 --output "$t"
expect "nobody there: exit status 1" same "$status" 1
expect "and one line" lines "$err" 1
cp "$t/small.csv" "$t/AzureLLMInferenceTrace_conv.csv"
run trace fetch azure-2023-conv --output "$t" --json
expect "a file that is there is not fetched" holds "$out" '.existed and (.sha256 | length) == 64'

# ---- the bundled samples
mkdir "$t/samples"
tools/make_samples.sh "$LOCKSTEP" "$t/samples" >/dev/null
for f in azure_conv_sample.csv sharegpt_sample.json; do
	expect "$f is what tools/make_samples.sh makes" cmp "traces/samples/$f" "$t/samples/$f"
done
finish
