#!/bin/bash
# --kv-retention, as typed: simulated, on real kernels, replayed, and what it refuses.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/r.db

# --- fewer bits: twice as many blocks, with int8 less its scales (4 bytes for each of 2 x 8 heads' 128 numbers)
blocks() {
	run replay --dataset-name random --num-prompts 4 --random-output-len 64 --policy vllm_v1 --no-db --json "$@"
	jq '.settings.num_gpu_blocks' <<<"$out"
}
h100=(--model llama-3.1-8b --device h100-sxm)
bf16=$(blocks "${h100[@]}") fp8=$(blocks "${h100[@]}" --kv-cache-dtype fp8) int8=$(blocks "${h100[@]}" --kv-cache-dtype int8)
expect "fp8: two blocks for one" test "$((fp8 / 2))" -eq "$bf16" -a "$bf16" -gt 20000
expect "int8: 128 for 66" test "$((int8 * 66 / 128 - bf16))" -ge -1 -a "$((int8 * 66 / 128 - bf16))" -le 1
expect "and attention reads less" holds "$(run compare --dataset-name random --num-prompts 8 --policies vllm_v1 "${h100[@]}" \
	--kv-cache-dtype bf16,fp8,int8 --random-input-len 8000 --random-output-len 64 --no-db --json; echo "$out")" \
	'[.runs[].median_tpot_ms] | length == 3 and .[1] < .[2] and .[2] < .[0]'

# --- simulated: a window holds back memory, sinks keep a little more
sim=(replay --dataset-name random --num-prompts 60 --random-input-len 300 --random-output-len 400 --request-rate inf
	--model llama-3.1-8b --device h100-sxm --num-gpu-blocks-override 3000 --policy vllm_v1 --no-db --json)
run "${sim[@]}"
full=$out
expect "everything is kept unless told otherwise" holds "$full" '.settings.kv_retention == "full" and .dropped_blocks == 0'
run "${sim[@]}" --kv-retention window --kv-window 128 --check
expect "a window drops pages" holds "$out" '.settings.kv_retention == "window" and .settings.kv_window == 128 and .dropped_blocks > 1000 and
	.dropped_tokens == 16 * .dropped_blocks and .completed == 60'
expect "and needs less memory" test "$(jq .max_blocks_used <<<"$out")" -lt "$(($(jq .max_blocks_used <<<"$full") / 2))"
window=$out
run "${sim[@]}" --kv-retention sink-window --kv-window 128 --kv-sink 4 --check
expect "sinks keep a page each" holds "$out" ".settings.kv_sink == 4 and .dropped_blocks < $(jq .dropped_blocks <<<"$window") and
	.max_blocks_used >= $(jq .max_blocks_used <<<"$window")"
run "${sim[@]}" --num-gpu-blocks-override 400
expect "tight memory preempts" holds "$out" '.preemptions > 0'
run "${sim[@]}" --num-gpu-blocks-override 400 --policy vllm_v1:shortage=drop,drop_keep=64
expect "unless a policy drops pages instead" holds "$out" '.preemptions == 0 and .dropped_blocks > 0 and .completed == 60'
run replay --dataset-name random --num-prompts 4 --model mistral-7b-v0.1 --device h100-sxm --kv-retention window --no-db --json
expect "the window of a model that has one" holds "$out" '.settings.kv_window == 4096'
run replay --dataset-name random --num-prompts 4 --model llama-3.1-8b --device h100-sxm --kv-retention sink-window \
	--kv-window 512 --kv-sink 4 --no-db
expect "it is said" has "$out" "keeps the first 4 and the last 512 tokens of a request"
expect "and how much went" grep -qE '[0-9,]+ blocks dropped \([0-9,]+ tokens\)' <<<"$out"
run compare --dataset-name random --num-prompts 4 --model llama-3.1-8b --device h100-sxm --kv-retention full,window \
	--kv-window 512 --no-db --policies vllm_v1
expect "compared, each takes what is its own" test "$status" -eq 0 -a -z "$err"

# --- what does not go together: one line
small=(replay --dataset-name random --num-prompts 2 --device h100-sxm --model llama-3.1-8b)
expect "a window without a model's" refused "the model has no sliding window" "${small[@]}" --kv-retention window
expect "layers that see everything" refused "some layers of the model see the whole context" replay --dataset-name random \
	--num-prompts 2 --device h100-sxm --model gpt-oss-20b --kv-retention window
expect "sinks without a number" refused "--kv-sink" "${small[@]}" --kv-retention sink-window --kv-window 64
expect "a window of nothing" refused "does nothing when every token is kept" "${small[@]}" --kv-window 64
expect "a prefix tree" refused "use --prefix-cache hash or off" "${small[@]}" --kv-retention window --kv-window 64 --prefix-cache radix
expect "contiguous memory" refused "reserves contiguous memory" "${small[@]}" --kv-retention window --kv-window 64 --policy orca
expect "another word" refused "full, window, sink-window" "${small[@]}" --kv-retention sinks

# --- real kernels: with the model's own window not a token changes
tiny() { cat <<JSON
{"architectures": ["$1ForCausalLM"], "model_type": "$2", "hidden_size": 32, "intermediate_size": 64, $3
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
 "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000, "hidden_act": "silu",
 "torch_dtype": "float32", "tie_word_embeddings": true, "eos_token_id": 2}
JSON
}
tiny Mistral mistral '"sliding_window": 24,' >"$tmp/mistral.json"
tiny Llama llama '' >"$tmp/llama.json"
# 2 layers, K and V, 2 heads of 8 numbers: 256 bytes a token in fp32, 128 in bf16, 64 + 32 of scales in int8.
held=(--backend cpu --model "$tmp/llama.json" --weights random:1 --threads 1 --kv-cache-memory-bytes 3072000 --block-size 8
	--random-input-len 20)
for t in fp32:1500 bf16:3000 int8:4000; do
	expect "memory holds that many blocks of ${t%:*}" same "$(blocks "${held[@]}" --kv-cache-dtype "${t%:*}")" "${t#*:}"
done
expect "fp8 pages are a GPU's" refused "but for --backend cuda" replay "${held[@]}" --dataset-name random --num-prompts 2 \
	--policy vllm_v1 --kv-cache-dtype fp8
cpu=(--backend cpu --weights random:1 --threads 1 --batch-invariant on --block-size 8 --num-gpu-blocks-override 60 --check
	--db "$db" --dataset-name random --num-prompts 10 --random-input-len 60 --random-output-len 40 --request-rate 400 --json)
# Runs it and remembers its number and its result.
serve() {
	run replay "${cpu[@]}" "$@"
	expect "served: $*" test "$status" -eq 0
	id=$(sqlite3 "$db" 'select max(run_id) from runs')
}
# How many requests have the same tokens in two runs.
alike() {
	sqlite3 "$db" "select count(*) from outputs a join outputs b on (a.id & 4294967295) = (b.id & 4294967295)
		where a.id >> 32 = $1 and b.id >> 32 = $2 and a.tokens = b.tokens"
}
serve --model "$tmp/mistral.json" --policy vllm_v1
kept=$id
serve --model "$tmp/mistral.json" --policy vllm_v1 --kv-retention window
expect "its own window was dropped behind" holds "$out" '.settings.kv_window == 24 and .dropped_blocks > 50'
expect "without changing a token" same "$(alike "$kept" "$id")" 10
serve --model "$tmp/mistral.json" --policy vllm_v1 --kv-retention window --prefix-cache hash --async-scheduling on
expect "nor with a prefix cache, planned ahead" same "$(alike "$kept" "$id")" 10
expect "which is stored" same "$(sqlite3 "$db" "select kv_retention, kv_window, kv_sink from runs where run_id = $id")" 'window|24|'
run replay --run "$id" --db "$db" --json
expect "the recorded times replay" test "$status" -eq 0
expect "to the same decisions and pages" same "$(sqlite3 "$db" "select count(distinct decision_hash || memory_hash) from runs
	where run_id in ($id, $(jq .run_id <<<"$out"))")" 1
serve --model "$tmp/llama.json" --policy vllm_v1
kept=$id
serve --model "$tmp/llama.json" --policy vllm_v1 --kv-retention sink-window --kv-window 16 --kv-sink 4
expect "another window changes tokens" test "$(alike "$kept" "$id")" -lt 10
run decisions "$id" --db "$db"
expect "and what was dropped is in the log" has "$out" ": drop "

# --- generate: what it costs
ids=$(seq -s, 3 62)
run generate --model "$tmp/mistral.json" --weights random:1 --prompt-ids "$ids" --max-tokens 60 --ignore-eos \
	--kv-retention window --compare-full --json --batch-invariant
expect "nothing, with the model's window" holds "$out" '.kv_window == 24 and .compared.every_token_kept and
	.compared.logit_error < 1e-6 and .compared.greedy_agree == .compared.steps'
run generate --model "$tmp/llama.json" --weights random:1 --prompt-ids "$ids" --max-tokens 60 --ignore-eos \
	--kv-retention sink-window --kv-window 16 --kv-sink 4 --compare-full --json
expect "something, with another" holds "$out" '.compared.logit_error > 0.001 and .kv_sink == 4'
expect "generate refuses the same" refused "--kv-sink" generate --model "$tmp/llama.json" --weights random:1 --prompt-ids 1 \
	--kv-retention sink-window --kv-window 16
finish
