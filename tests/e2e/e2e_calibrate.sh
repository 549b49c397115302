#!/bin/bash
# lockstep calibrate: parameters out of a log, and the two measured vLLM runs fitted anew on their first halves.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

log=$tmp/requests.jsonl
for ((i = 0; i < 60; i++)); do
	at=$((i * 3 / 10)).$((i * 3 % 10))
	printf '{"input_toks": %d, "output_toks": %d, "queued_ts": %s, "scheduled_ts": %s1, "first_token_ts": %d.%d5, "last_token_ts": %d.%d5}\n' \
		$((100 + i * 37 % 400)) $((10 + i % 7)) "$at" "$at" $((i * 3 / 10)) $((i * 3 % 10)) $((i * 3 / 10 + 1)) $((i * 3 % 10))
done >"$log"
serve=(--model llama-3.2-1b --device h100-sxm --num-gpu-blocks-override 1000)

expect "a log is needed" refused "which log?" calibrate "${serve[@]}" --no-db
expect "one that is there" refused "cannot be read" calibrate "${serve[@]}" --no-db --measured "$tmp/none.jsonl"
expect "model and device are needed" refused "Give --model and --device" calibrate --no-db --measured "$log"
expect "near names of parameters" refused "memory" calibrate "${serve[@]}" --no-db --measured "$log" --params memroy
expect "only the roofline" refused "what is fitted is the roofline" calibrate "${serve[@]}" --no-db --measured "$log" \
	--cost-model constant:5ms
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,10,20\n' >"$tmp/other.csv"
expect "the trace must be the log's" refused "measured log" calibrate "${serve[@]}" --no-db --measured "$log" \
	--dataset-path "$tmp/other.csv"
echo '{"engine_kwargs": {"max_num_seqs": 7}}' >"$tmp/meta.json"

run calibrate "${serve[@]}" --db "$tmp/c.db" --measured "$log" --params gemm,memory --force --max-evals 60 --json
expect "it is fitted" same "$status" 0
expect "settings beside the log are taken" holds "$out" '.max_num_seqs == 7'
expect "parameters with their uncertainty" holds "$out" '.params.memory | .fitted and .low <= .value and .value <= .high and .low < .high'
expect "others stay" holds "$out" '.params.kv.fitted == false'
expect "it came closer" holds "$out" '.fitted.after.loss < .fitted.before.loss'
expect "a text to use again" holds "$out" '.cost_model | startswith("roofline:gemm=")'
cost=$(jq -r .cost_model <<<"$out")
expect "stored, with its errors" same "$(sqlite3 "$tmp/c.db" 'select count(*) from calibrations join calibration_errors using (calibration_id)')" 40
expect "stored, with its parameters" same "$(sqlite3 "$tmp/c.db" 'select count(*) from calibration_params where fitted')" 2
run replay "${serve[@]}" --db "$tmp/c.db" --cost-model "$cost" --dataset-name random --num-prompts 50 --request-rate 20
expect "which replay takes" same "$status" 0
run calibrate "${serve[@]}" --db "$tmp/c.db" --measured run:latest --params gemm,memory --max-evals 60 --force
expect "a run of ours is a log as well" same "$status" 0
expect "its settings are told" has "$out" "run 1 tells"
run calibrate "${serve[@]}" --no-db --measured "$log" --train-fraction 0.1
expect "too few requests: exit status 1" same "$status" 1
expect "too few requests: says so" has "$err" "too few"
# On a slow device the host's time hides behind the device's.
run calibrate --model llama-3.2-1b --device l4 --num-gpu-blocks-override 1000 --no-db --measured "$log" --params request --async-scheduling
expect "what the log cannot tell: exit status 1" same "$status" 1
expect "what the log cannot tell is named" has "$err" "cannot determine request"

# Held out: within 2 % at p50 and p90, 3 % at p99; prefill 10 %.
targets='.held_out.after | [.prefill_p50_err, .prefill_p90_err, .prefill_p99_err | fabs < 10] +
	[.ttft_p50_err, .ttft_p90_err, .tpot_p50_err, .tpot_p90_err, .e2e_p50_err, .e2e_p90_err | fabs < 2] +
	[.ttft_p99_err, .tpot_p99_err, .e2e_p99_err | fabs < 3] | all'
met() {
	local run=$1
	shift
	if [ ! -f "$shared/measured/$run/requests.jsonl" ]; then
		skip "$run is not here"
		return
	fi
	run calibrate --no-db --json --measured "$shared/measured/$run/requests.jsonl" \
		--dataset-path "$shared/traces/sharegpt_300_hashed.jsonl" --model llama-3.1-8b "$@"
	expect "$run: the unseen half is met" holds "$out" "$targets"
}
met vllm_rtx4090_llama-3_1-8b --device rtx-4090 --num-gpu-blocks-override 2588
met vllm_rtxpro6000_llama-3_1-8b --device rtx-pro-6000
# Serving points.
points=$shared/measured/silicon_h100_h200.csv
if [ -e "$points" ]; then
	run calibrate points "$points" --json
	expect "H100 and H200 as they come are within 8 % of measured servers" holds "$out" '.points == 354 and .tpot_mape < 8 and (.servers | length) == 15'
	run calibrate points "$points" --fit --max-evals 200 --report "$tmp/points.md"
	expect "a fit has its parameters with their uncertainty" has "$out" "| collective_us | trtllm |"
	expect "and the report the same tables" has "$(cat "$tmp/points.md")" "$out"
else
	skip "no measured points here"
fi
expect "points want a file" refused "which points?" calibrate points
echo "model,system" >"$tmp/x.csv"
expect "with its columns" refused 'no column "backend"' calibrate points "$tmp/x.csv"
expect "an engine that nothing is known of" refused "known: vllm trtllm" capacity --model llama-3.1-8b --device h100-sxm@x
finish
