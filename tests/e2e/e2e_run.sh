#!/bin/bash
# replay and compare on bundled and made traces: output, JSON, database, result files, errors.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
served=(--model llama-3.1-8b --device h100-sxm)
made=(--dataset-name random --num-prompts 200 --request-rate 20)
db=$tmp/a.db

run replay "${served[@]}" "${made[@]}" --db "$db"
expect "a replay succeeds" test "$status" -eq 0 -a -z "$err"
for word in TTFT TPOT ITL E2E Workload hash chunked "$db"; do expect "its text has $word" has "$out" "$word"; done
expect "no bar where stderr is no terminal" same "$err" ""
text=$out
run replay "${served[@]}" "${made[@]}" --no-db --quiet
expect "quiet prints nothing" test "$status" -eq 0 -a -z "$out" -a -z "$err"

run replay "${served[@]}" "${made[@]}" --no-db --json
expect "one JSON object" holds "$out" 'type == "object"'
for key in date backend model_id num_prompts request_rate burstiness max_concurrency duration completed failed \
	total_input_tokens total_output_tokens request_throughput output_throughput total_token_throughput \
	max_output_tokens_per_s max_concurrent_requests {mean,median,std,p99}_{ttft,tpot,itl,e2el}_ms \
	policy run_id steps preemptions rejected sim_wall_s workload_hash; do
	expect "JSON has $key" holds "$out" "has(\"$key\")"
done
expect "all were served" holds "$out" '.completed == 200 and .failed == 0 and .num_prompts == 200'
stable='del(.date, .sim_wall_s, .run_id, .settings.arguments, .settings.arm)'
first=$(jq -S "$stable" <<<"$out")
run replay "${served[@]}" "${made[@]}" --no-db --json
expect "the same run gives the same figures" same "$(jq -S "$stable" <<<"$out")" "$first"
run replay "${served[@]}" "${made[@]}" --no-db --json --seed 1
expect "another seed gives other ones" test "$(jq -S "$stable" <<<"$out")" != "$first"
run compare "${served[@]}" "${made[@]}" --no-db --json --policies chunked
expect "compare gives what replay gives" same "$(jq -S ".runs[0] | $stable" <<<"$out")" "$first"

# The database has what was printed.
expect "one run is stored" same "$(sqlite3 "$db" 'select count(*) from runs')" 1
expect "and its requests" same "$(sqlite3 "$db" 'select count(*) from requests')" 200
expect "the views answer" test "$(sqlite3 "$db" 'select count(*) from request_latency')" -eq 200 -a \
	"$(sqlite3 "$db" 'select count(*) from run_summary')" -eq 1
run replay "${served[@]}" "${made[@]}" --db "$db" --record steps --json
expect "steps are stored when asked for" same "$(sqlite3 "$db" 'select count(*) from step_timeline where run_id = 2')" "$(jq .steps <<<"$out")"
run replay "${served[@]}" "${made[@]}" --db "$db" --record none --quiet
expect "requests are not when not" same "$(sqlite3 "$db" 'select count(*) from request_detail where run_id = 3')" 0
run runs --db "$db"
expect "runs lists them" test "$status" -eq 0 -a "$(grep -c chunked <<<"$out")" -ge 3

# compare.
run compare "${served[@]}" "${made[@]}" --db "$db" --policies naive,continuous,chunked
expect "compare succeeds" test "$status" -eq 0 -a -z "$err"
for word in naive continuous chunked '*' "runs 4 to 6"; do expect "its table has $word" has "$out" "$word"; done
run compare "${served[@]}" "${made[@]}" --no-db --policies naive --max-num-seqs 1 --kv-cache off,on --json
expect "lists make arms" holds "$out" '.runs | length == 2'
expect "without a KV cache it takes longer" holds "$out" '.runs[0].duration > .runs[1].duration'
expect "both had the same input" holds "$out" '.runs[0].workload_hash == .runs[1].workload_hash'

# What README shows of the first command is what it prints.
run compare "${served[@]}" traces/samples/azure_conv_sample.csv --policies naive,continuous,chunked --no-db
out=$(tr -s ' ' <<<"$out")
while read -r line; do
	expect "README's excerpt is true" has "$out" "$(tr -s ' ' <<<"$line")"
done < <(sed -n '/^Served by/,/^\.\.\.$/p' README.md | grep -v '^\.\.\.$\|^$')

# Result files.
run replay "${served[@]}" "${made[@]}" --no-db --save-result --save-detailed --result-dir "$tmp" --result-filename r.json
expect "a result file" test "$status" -eq 0 -a -s "$tmp/r.json"
expect "with vLLM's keys and every request" file_holds "$tmp/r.json" '.completed == 200 and (.ttfts | length == 200) and
	(.itls | length == 200) and (.errors | length == 200) and (.input_lens | length == 200)'
expect "gaps add up to what was reported" file_holds "$tmp/r.json" '([.ttfts, [.itls[] | add // 0]] | transpose | map(add) | add / length * 1000)
	- .mean_e2el_ms | fabs < 1e-6'
run compare "${served[@]}" "${made[@]}" --no-db --policies naive,chunked --save-result --result-dir "$tmp" --result-filename c.json
expect "one file per run" test -s "$tmp/c-naive.json" -a -s "$tmp/c-chunked.json"

# Objectives, percentiles, checking, memory given by hand, other cost models.
run replay "${served[@]}" "${made[@]}" --no-db --goodput ttft:1 tpot:1 --metric-percentiles 50,90,99.9 --json
expect "impossible objectives are met by none" holds "$out" '.request_goodput == 0'
expect "asked percentiles" holds "$out" 'has("p50_ttft_ms") and has("p90_tpot_ms") and has("p99.9_e2el_ms")'
run replay "${served[@]}" "${made[@]}" --no-db --check --json
expect "checking changes no figure" same "$(jq -S "$stable | del(.settings)" <<<"$out")" "$(jq -S 'del(.settings)' <<<"$first")"
run replay --cost-model linear:a=5ms,b=20us,c=1ms --num-gpu-blocks-override 1000 "${made[@]}" --no-db --json
expect "a linear cost model needs no model or device" holds "$out" '.completed == 200'
run replay "${served[@]}" "${made[@]}" --no-db --num-gpu-blocks-override 500 --random-output-len 512 --json
expect "little memory preempts" holds "$out" '.preemptions > 0 and .completed == 200'
run replay "${served[@]}" "${made[@]}" --no-db --max-tokens-mode oracle --policy continuous
expect "oracle is said" has "$out" "ORACLE"

# A terminal gets a bar that goes away, and nobody else.
many=${LOCKSTEP_TEST_SHORT:+100000}
many=${many:-1000000}
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
	script -qec "$LOCKSTEP replay ${served[*]} --dataset-name random --num-prompts $many --request-rate 10 --no-db" \
		"$tmp/tty" >/dev/null </dev/null
	out=$(tr '\r' '\n' <"$tmp/tty")
	expect "a terminal gets a progress bar" grep -qE "chunked \[#*\.*\] +[0-9]+%  [0-9]+/$many " <<<"$out"
	expect "with the time left" grep -qE '[0-9]+ s left' <<<"$out"
else
	skip "the progress bar: there is no terminal to be had (script, /dev/pts)"
fi

# What was typed wrong.
expect "no trace" refused "" replay "${served[@]}" --no-db
expect "no model" refused "--model" replay "${made[@]}" --no-db
expect "a model that is not known" refused "did you mean" replay --model llama-3.1-8 --device h100-sxm "${made[@]}" --no-db
expect "a device that is not known" refused "did you mean" replay --model llama-3.1-8b --device h100-smx "${made[@]}" --no-db
expect "a policy that is not known" refused "did you mean chunked?" replay --policy chunkde "${served[@]}" "${made[@]}" --no-db
expect "a parameter that is not known" refused "watermark" replay --policy chunked:watermrak=1 "${served[@]}" "${made[@]}" --no-db
expect "a missing file" refused "$tmp/none.csv" replay "${served[@]}" --no-db "$tmp/none.csv"
expect "heads that cannot be split" refused "do not divide" replay "${served[@]}" "${made[@]}" --no-db --tensor-parallel-size 3
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,10,2\n2023-11-16 18:15:47.00,1x,2\n' >"$tmp/bad.csv"
expect "a bad row is named" refused "bad.csv:3:" replay "${served[@]}" --no-db "$tmp/bad.csv"
run replay "${served[@]}" --no-db --on-bad-row skip "$tmp/bad.csv"
expect "or skipped and counted" test "$status" -eq 0
expect "and said" has "$out" "1 left out"
echo "no database" >"$tmp/not.db"
run replay "${served[@]}" "${made[@]}" --db "$tmp/not.db"
expect "a file that is no database is left alone" test "$status" -ne 0 -a "$(cat "$tmp/not.db")" = "no database"
expect "and named" has "$err" "not.db"
run replay "${served[@]}" "${made[@]}" --db "$tmp/no/such/folder/a.db"
expect "a database that cannot be made" test "$status" -ne 0
expect "is named" has "$err" "$tmp/no/such/folder/a.db"
expect "the text of the first run was not touched by all this" has "$text" "TTFT"
finish
