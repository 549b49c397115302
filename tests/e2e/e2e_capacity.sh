#!/bin/bash
# lockstep capacity, as typed: the published figures come out of the command line.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

run capacity --model mistral-7b --device a100-80g
expect "capacity succeeds" same "$status" 0
expect "KV per token" has "$out" "131,072 bytes"
expect "one user and 80 users at 4K" has "$out" "4,096    0.537 GB      42.950 GB"
expect "one user at 16K" has "$out" "16,384    2.147 GB"
expect "operators are shown" has "$out" "attention (prefill)"
expect "no comparison unless asked" test "${out/All devices/}" = "$out"

run capacity --model llama-2-7b --device a100-80g --assume-weight-bytes 14e9 --assume-session-bytes 2e9 --json
expect "the textbook's 33 sessions" holds "$out" '.max_concurrent_sessions == 33 and .kv_bytes_per_token == 524288'
run capacity --model llama-3-8b --device a100-80g --assume-weight-bytes 16e9 --assume-session-bytes 1e9 --json
expect "the textbook's 64 sessions" holds "$out" '.max_concurrent_sessions == 64'
run capacity --model llama-2-7b --device a100-80g --memory nominal --max-model-len 4096 --json
expect "exact counting gives 30" holds "$out" '.max_concurrent_sessions == 30 and .weight_bytes == 13476831232'
run capacity --model llama-3.1-8b --device rtx-4090 --json
expect "the blocks vLLM measured" holds "$out" '.num_gpu_blocks > 2562 and .num_gpu_blocks < 2614'
expect "memory adds up" holds "$out" '.memory | .budget_bytes - .weight_bytes - .activation_bytes - .buffer_bytes
	- .context_bytes == .kv_bytes'
expect "operators add up to the step" holds "$out" '[.prefill, .decode] | all((([.operators[].ms] | add) - .device_ms
	| fabs) < 1e-4)'
expect "TPOT grows with the batch" holds "$out" '[.ideal.batches[].tpot_ms] | . == sort and length > 3'
run capacity --model gpt-oss-120b --weight-dtype fp8 --json
expect "gpt-oss-120b in fp8, which does not fit" holds "$out" '.num_gpu_blocks == 0 and .weight_bytes == 116829156672
	and .ideal.batches == []'
run capacity --model deepseek-v3 --device h200
expect "MLA against MHA" has "$out" "71.1 times as much"
expect "no room is said" has "$out" "DOES NOT FIT"

run capacity --model llama-3.1-8b --max-latency 20 --min-batch 16 --json
expect "all devices are ranked" holds "$out" '(.devices | length) >= 14 and ([.devices[] | select(.verdict == "ok")
	| .best.dollars_per_million_output_tokens] | . == sort and length > 3)
	and ([.devices[] | select(.verdict == "ok") | .best | .tpot_ms <= 20 and .batch >= 16] | all)'
echo '{"base": "h100-sxm", "price_per_hour": 0.01}' >"$tmp/cheap.json"
run capacity --model llama-3.1-8b --device "$tmp/cheap.json" --max-latency 20
expect "a device of one's own takes part" has "$out" "1  cheap "

run capacity --list
expect "models are listed" has "$out" "mixtral-8x7b"
expect "devices are listed" has "$out" "NVIDIA H200"
run capacity --list --json
expect "as JSON too" holds "$out" '(.models | length) >= 20 and (.devices | length) >= 14'
run capacity --model stories-260k --device cpu
expect "a model of few positions has defaults of its size" same "$status" 0

echo '{"architectures": ["GPT2LMHeadModel"]}' >"$tmp/gpt2.json"
expect "an architecture is refused by name" refused "GPT2LMHeadModel" capacity --model "$tmp/gpt2.json"
expect "an unknown model" refused "did you mean" capacity --model lama-3.1-8b
expect "an unknown device" refused "h100-sxm" capacity --model llama-3.1-8b --device h100-smx
expect "no model" refused "--model is missing" capacity
expect "heads that cannot be split" refused "attention heads 32 do not divide" capacity --model llama-3.1-8b --tensor-parallel-size 3
run capacity --model llama-3.1-70b --device h100-sxm --tensor-parallel-size 4 --json
expect "70B on four devices" holds "$out" '.num_gpu_blocks > 25000 and .num_gpu_blocks < 35000'
expect "mxfp4 without experts" refused "no experts" capacity --model llama-3.1-8b --weight-dtype mxfp4
expect "two ways to say it" refused "give one" capacity --model llama-3.1-8b --weight-dtype fp8 --quantization fp8
expect "longer than the model" refused "more than the" capacity --model llama-2-7b --max-model-len 5000
expect "a stray word" refused "not an option" capacity llama-2-7b
finish
