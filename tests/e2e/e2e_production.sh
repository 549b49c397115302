#!/bin/bash
# The production traces at full size, where they are at hand.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
traces=$shared/traces
served=(--model llama-3.1-8b --device h100-sxm)
if [ ! -r "$traces/AzureLLMInferenceTrace_conv.csv" ]; then
	skip "the production traces are not here"
	finish
fi
db=$tmp/a.db

run compare --dataset-path "$traces/AzureLLMInferenceTrace_conv.csv" "${served[@]}" --policies naive,continuous,chunked --db "$db" --json
expect "Azure conversations under three policies" holds "$out" '.runs | length == 3 and all(.completed == 19366 and .failed == 0)'
awk -F, 'NR > 1 {i += $2; o += $3} END {print i, o}' "$traces/AzureLLMInferenceTrace_conv.csv" | tr -d '\r' >"$tmp/sums"
read -r input output <"$tmp/sums"
expect "input tokens equal the file's" holds "$out" ".runs | all(.total_input_tokens == $input)"
expect "output tokens equal the file's" holds "$out" ".runs | all(.total_output_tokens == $output)"
expect "continuous batching beats static in TTFT" holds "$out" '.runs[1].mean_ttft_ms < .runs[0].mean_ttft_ms'
expect "and in throughput" holds "$out" '.runs[1].output_throughput > .runs[0].output_throughput'
expect "the database has them all" same "$(sqlite3 "$db" 'select count(*) from requests')" 58098

run compare --dataset-path "$traces/mooncake_conversation.jsonl" "${served[@]}" --policies continuous,chunked --db "$db" --json
expect "Mooncake conversations under two" holds "$out" '.runs | length == 2 and all(.completed + .failed == 12031)'

run compare --dataset-path "$traces/AzureLLMInferenceTrace_code.csv" --num-prompts 500 "${served[@]}" --policies naive --max-num-seqs 1 --kv-cache off,on --db "$db" --json
expect "no KV cache against one" holds "$out" '.runs | length == 2 and all(.completed == 500)'
expect "the cache is worth its memory" holds "$out" '.runs[0].mean_e2el_ms > .runs[1].mean_e2el_ms'

run trace info "$traces/mooncake_synthetic.jsonl"
expect "trace info" test "$status" -eq 0
expect "its ideal hit ratio" has "$out" "0.640"
run trace info "$traces/mooncake_conversation.jsonl"
expect "the other one's" has "$out" "0.366"
run capacity --model mistral-7b --device a100-80g --json
expect "capacity" holds "$out" '.kv_bytes_per_token == 131072 and .num_gpu_blocks > 0 and .weight_bytes > 14e9'
run replay --dataset-path "$traces/mooncake_synthetic.jsonl" "${served[@]}" --no-db --json
expect "rows past the model's length are rejected, the rest served" holds "$out" '.rejected == 10 and .completed == 3983'
finish
