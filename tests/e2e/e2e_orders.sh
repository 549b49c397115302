#!/bin/bash
# Orders of the waiting and choices of who gives way, as a user types them.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

served=(--cost-model "linear:a=5ms,b=20us,c=1ms" --num-gpu-blocks-override 90 --max-num-seqs 16 --no-db)
made=(--dataset-name random --num-prompts 200 --request-rate 60 --random-input-len 64 --random-output-len 64 --seed 7)

run compare "${served[@]}" "${made[@]}" --policies vllm_v1 --scheduling-policy fcfs,sjf --predictor oracle --random-range-ratio 0.9 --json
expect "sjf shortens the mean wait" holds "$out" '.runs[1].mean_queue_ms < .runs[0].mean_queue_ms'
expect "what was chosen is in the result" holds "$out" '.runs[1].settings | .scheduling_policy == "sjf" and .predictor == "oracle" and .victim == "default" and .oracle'
expect "who knows no lengths is no oracle" holds "$out" '.runs[0].settings | .predictor == null and (.oracle | not)'
run replay "${served[@]}" "${made[@]}" --policy vllm_v1 --scheduling-policy sjf --predictor noisy:0
expect "what was waited for is told" has "$out" "; of all of it "
expect "told the truth is told" has "$out" "policies are told the true output lengths"

run compare "${served[@]}" "${made[@]}" --policies vllm_v1 --random-range-ratio 0.9 --victim last,shortest,longest-left,least-work-lost --predictor mean --json
expect "victims give way" holds "$out" '[.runs[] | .preemptions > 0 and .recomputed_tokens > 0 and .completed == 200] | all'
expect "not the same ones" holds "$out" '[.runs[].recomputed_tokens] | unique | length > 1'
run compare "${served[@]}" "${made[@]}" --policies vllm_v1,vllm_v0:watermark=0 --victim last,shortest
expect "recomputed tokens are compared" has "$out" "recomputed tokens"
run replay --cost-model linear:a=5ms,b=20us,c=1ms --num-gpu-blocks-override 90 "${made[@]}" --db "$tmp/o.db" --policy vllm_v1 --victim last \
	--scheduling-policy sjf --predictor noisy:0.25
expect "the database says so" same "$(sqlite3 "$tmp/o.db" 'SELECT scheduling_policy, predictor, victim FROM runs')" "sjf|noisy:0.25|last"

# Two tenants, one of whom sends ten times as much; short and long answers.
awk 'BEGIN { for (i = 0; i < 220; i++)
	printf "{\"arrival_s\": %g, \"input_tokens\": 60, \"output_tokens\": %d, \"class\": \"%s\", \"slo_ttft_ms\": %d}\n",
		i / 200, i % 5 ? 8 : 120, i % 11 ? "much" : "little", i % 7 ? 0 : 50 }' >"$tmp/tenants.jsonl"
crowded=(--cost-model "linear:a=5ms,b=20us,c=1ms" --num-gpu-blocks-override 200 --max-num-seqs 8 --no-db "$tmp/tenants.jsonl")
run compare "${crowded[@]}" --policies vllm_v1 --scheduling-policy fcfs,fair,edf,mlfq:quantum=64,promote=5s --goodput ttft:2000 --json
expect "orders serve everybody" holds "$out" '[.runs[].completed] == [220, 220, 220, 220]'
expect "fair is fairer" holds "$out" '.runs[1].tenant_fairness != .runs[0].tenant_fairness'
expect "edf is another order, where deadlines differ" holds "$out" '.runs[2].median_ttft_ms != .runs[0].median_ttft_ms'
expect "mlfq lets short answers overtake" holds "$out" '.runs[3].median_e2el_ms < .runs[0].median_e2el_ms and .runs[3].preemptions > 0'
expect "what was waited for adds up" holds "$out" '[.runs[] | (.wait_entry_share + .wait_memory_share + .wait_place_share +
	.wait_budget_share + .wait_prefill_share + .wait_policy_share - 1 | fabs) < 1e-9 and .p99_wait_memory_ms >= 0 and .max_wait_ms > 0] | all'
expect "tenants are as unlike as they were served" holds "$out" '.runs[0].tenant_service_fairness < 0.8 and .runs[1].tenant_latency_fairness <= 1'
expect "their parameters are told" holds "$out" '[.runs[].settings.scheduling_params] ==
	[null, "input=1,output=2", null, "input=1,output=2,levels=6,quantum=64,promote=5000000000ns"]'
expect "edf without an objective" refused "--goodput ttft" replay "${crowded[@]}" --scheduling-policy edf
expect "levels and another victim" refused "its levels say who gives way" replay "${crowded[@]}" --scheduling-policy mlfq --victim shortest
expect "levels that do not exist" refused "from 1 to 16" replay "${crowded[@]}" --scheduling-policy mlfq:levels=17
expect "levels for who stops nobody" refused "never stops a running request" replay "${crowded[@]}" --policy orca --scheduling-policy mlfq

expect "sjf without a predictor" refused "--predictor" replay "${served[@]}" "${made[@]}" --scheduling-policy sjf
expect "a predictor of no use" refused "goes with" replay "${served[@]}" "${made[@]}" --predictor mean
expect "a predictor that is not known" refused "noisy:SIGMA" replay "${served[@]}" "${made[@]}" --scheduling-policy sjf --predictor noisy
expect "a victim nobody takes" refused "orca:paged=on" replay "${served[@]}" "${made[@]}" --policy orca --victim last
expect "an order nobody heeds" refused "draws at random" replay "${served[@]}" "${made[@]}" --policy random --scheduling-policy priority
expect "an order that is not known" refused "fcfs, priority, sjf, edf, fair, mlfq" replay "${served[@]}" "${made[@]}" --scheduling-policy lifo

finish
