#!/bin/bash
# explain: causes of a hand-solved schedule, what-ifs that a real run confirms, runs on kernels, names that would break a terminal.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/x.db
at_db=(--db "$db")

# --- by hand: a step takes 1 ms, 100 us more for each prompt token, 50 us for each decode; 8 tokens a step. A's 24 tokens take 1.8 ms
# three times; B came at 0.1 ms and is let in at 5.4, with A's decode beside it. Its name would set the terminal's title.
hostile=$'\e]0;owned\a\u202e'
jq -nc --arg b "$hostile" '{id: "A", arrival_s: 0, input_tokens: 24, output_tokens: 2},
	{id: $b, arrival_s: 0.0001, input_tokens: 4, output_tokens: 1}' >"$tmp/hand.jsonl"
hand=(--policy vllm_v1 --cost-model "linear:a=1ms,b=100us,c=50us" --num-gpu-blocks-override 64 --max-num-batched-tokens 8
	--max-num-seqs 4)
run replay "${hand[@]}" "${at_db[@]}" -q "$tmp/hand.jsonl"
run explain "${at_db[@]}" latest A --json
expect "what came of A" holds "$out" '.to_first_token_ns.own_prefill == 5400000 and .after_it_ns.own_decode == 1050000 and
	.after_it_ns.others_prefill == 400000 and .ttft_ns == 5400000 and .e2e_ns == 6850000'
run explain "${at_db[@]}" 1 "$hostile" --json
expect "what came of B" holds "$out" '.to_first_token_ns | .entry == 1700000 and .prefill == 3600000 and
	.others_decode == 50000 and .own_prefill == 1400000 and ([.[]] | add) == 6750000'
expect "who was in its way" holds "$out" '.prompts_in_its_way == [{request: 0, name: "A", ns: 3600000, share: 1}]'
expect "its phases have no gap" holds "$out" '[.phases[] | .end_ns - .begin_ns] | add == 6750000'
run explain "${at_db[@]}" 1 "$hostile"
expect "B in words" test "$status" -eq 0 -a -z "$err"
expect "with its table" has "$out" "waited behind a long prompt"
expect "and who" has "$out" "A (100 %, 3.600 ms)"
expect "nothing that a terminal obeys" test -z "$(LC_ALL=C tr -d '\n -~' <<<"$out")"
run explain "${at_db[@]}" 1
expect "nor in the run's" test "$status" -eq 0 -a -z "$(LC_ALL=C tr -d '\n -~' <<<"$out")"
expect "nor in an error" refused "has no request" explain "${at_db[@]}" 1 "$hostile$hostile"
expect "of plain characters" test -z "$(LC_ALL=C tr -d '\n -~' <<<"$err")"

# --- what-ifs are what a run with that setting comes to
"$LOCKSTEP" trace generate --num-prompts 200 --seed 3 "$tmp/made.jsonl" >/dev/null || exit 1
load=(--policy vllm_v1 --cost-model "linear:a=5ms,b=20us,c=100us" --num-gpu-blocks-override 90 --replay-speedup 30
	--length-scale 0.2 --seed 7 --max-num-batched-tokens 256 --max-num-seqs 16)
run replay "${load[@]}" "${at_db[@]}" -q "$tmp/made.jsonl"
run explain "${at_db[@]}" --json
expect "a run's causes" holds "$out" '.ttft.requests > 100 and .ttft.slow_requests >= 1 and (.ttft.ranked | length) > 1'
expect "add up" holds "$out" '[.ttft, .tpot, .e2el] | all((([.slow_mean_by_cause_ns[]] | add) - .slow_mean_ns | fabs) < 1 and
	(([.mean_by_cause_ns[]] | add) - .mean_ns | fabs) < 1)'
expect "the base is the run" same "$(jq '.base.ttft_ns / 1e6 * 1000 | round' <<<"$out")" \
	"$(sqlite3 "$db" "select round(value * 1000) from metrics where run_id = 2 and name = 'p99_ttft_ms'" | cut -d. -f1)"
expect "several what-ifs ran" holds "$out" '[.what_ifs[] | select(.ran)] | length >= 4'
what=$out
confirmed=0
while IFS=$'\t' read -r change ns; do
	read -ra options <<<"$change"
	run replay "${load[@]}" "${options[@]}" --no-db --json "$tmp/made.jsonl"
	ms=$(jq '.p99_ttft_ms * 1000 | round' <<<"$out")
	[ "$ms" = "$(jq -n "$ns / 1000 | round")" ] && confirmed=$((confirmed + 1))
done < <(jq -r '.what_ifs[] | select(.ran) | [.change, .ttft_ns] | @tsv' <<<"$what")
expect "each is confirmed by a run" same "$confirmed" "$(jq '[.what_ifs[] | select(.ran)] | length' <<<"$what")"
# shellcheck disable=SC2016 # jq's
expect "the best is the best" holds "$what" '.best == null or (.best as $b | (.what_ifs | map(select(.change == $b))[0].ttft_ns) <
	.base.ttft_ns)'
run explain "${at_db[@]}" --what-if 0
expect "none are asked for" test "$status" -eq 0 -a "${out/What if/}" = "$out"
run explain "${at_db[@]}" 2 --metric tpot --percentile 90 --what-if 3
expect "another metric and percentile" has "$out" "against the causes of TPOT"
slow=$(jq -r '.ttft.slowest[0].name' <<<"$what")
run explain "${at_db[@]}" latest "$slow"
expect "the slowest in words" has "$out" "request $slow of run 2"

# --- refusals
expect "an unknown request" refused "has no request" explain "${at_db[@]}" 2 nobody
expect "an unknown run" refused "there is no run 77" explain "${at_db[@]}" 77
expect "too many words" refused "one too many" explain "${at_db[@]}" 2 1 1
run replay "${load[@]}" --replicas 2 --router round_robin "${at_db[@]}" -q "$tmp/made.jsonl"
run explain "${at_db[@]}" latest "$slow" --json
expect "several replicas are told apart" holds "$out" '([.to_first_token_ns[]] | add) == .ttft_ns'
expect "as they were" same "$(jq .ttft_ns <<<"$out")" \
	"$(sqlite3 "$db" "select ttft_ns from request_detail where run_id = 3 and name = '$slow'")"
run explain "${at_db[@]}" --what-if 4
expect "and their what-ifs" has "$out" "as it was (ms)"

# --- on real kernels: played from its recording, divided by what its steps say
jq -n '{model_type: "llama", architectures: ["LlamaForCausalLM"], hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,
	num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 64, max_position_embeddings: 512, rms_norm_eps: 1e-5,
	torch_dtype: "float32"}' >"$tmp/tiny.json"
run replay --backend cpu --model "$tmp/tiny.json" --weights random:1 --threads 1 --num-gpu-blocks-override 200 \
	--num-prompts 20 --length-scale 0.05 "${at_db[@]}" -q "$tmp/made.jsonl"
expect "a run on kernels" test "$status" -eq 0
name=$(sqlite3 "$db" "select name from request_detail where run_id = 4 and output_tokens > 1 limit 1")
run explain "${at_db[@]}" latest "$name" --json
expect "its causes add up" holds "$out" '.executed and ([.to_first_token_ns[]] | add) == .ttft_ns and
	([.to_first_token_ns[], .after_it_ns[]] | add) == .e2e_ns and .to_first_token_ns.own_prefill > 0'
expect "to what was measured" same "$(jq .ttft_ns <<<"$out")" \
	"$(sqlite3 "$db" "select ttft_ns from request_detail where run_id = 4 and name = '$name'")"
run explain "${at_db[@]}" --what-if 3
expect "its what-ifs say what they are" has "$out" "what its own steps took (a linear fit"
finish
