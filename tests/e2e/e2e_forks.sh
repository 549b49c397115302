#!/bin/bash
# Forks, as typed: --n and fork_of, simulated, on real kernels, replayed, and what they refuse.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/r.db

sim=(replay --dataset-name random --num-prompts 20 --random-input-len 301 --random-output-len 60 --model llama-3.1-8b
	--device h100-sxm --policy vllm_v1 --no-db --json)
run "${sim[@]}"
expect "nothing forks unless told to" holds "$out" '.settings.n == 1 and .forks == 0 and .copied_blocks == 0 and .kv_sharing_saved == 0'
alone=$out
run "${sim[@]}" --n 4 --check
expect "four samples of each" holds "$out" '.settings.n == 4 and .completed == 80 and .forks == 60 and .copied_blocks > 0 and
	.kv_sharing_saved > 0.4 and .kv_sharing_saved < 0.75 and .total_output_tokens == 4 * '"$(jq .total_output_tokens <<<"$alone")"
four=$out
expect "their prompts are computed once" test "$(jq .forked_tokens <<<"$four")" -gt 17000
run "${sim[@]}" --n 4 --policy orca
expect "contiguous memory shares nothing" holds "$out" '.completed == 80 and .forks == 0 and .kv_sharing_saved == 0'
run replay --dataset-name random --num-prompts 5 --n 2 --model llama-3.1-8b --device h100-sxm --no-db
expect "it is said" grep -qE "forks +5 took over [0-9,]+ tokens of their parents', [0-9]+ shared blocks copied" <<<"$out"

cat >"$tmp/tree.jsonl" <<'JSON'
{"id": "a", "arrival_s": 0, "input_tokens": 37, "output_tokens": 20}
{"id": "b", "fork_of": "a", "input_tokens": 37, "output_tokens": 9}
{"id": "c", "fork_of": "a", "fork_at": 45, "input_tokens": 52, "output_tokens": 7}
{"id": "d", "fork_of": "c", "after": "c", "input_tokens": 64, "output_tokens": 5}
{"id": "e", "arrival_s": 0.001, "input_tokens": 10, "output_tokens": 5}
JSON
run trace convert "$tmp/tree.jsonl" "$tmp/again.jsonl" --to lockstep
expect "written and read again" same "$(run trace info --dataset-path "$tmp/again.jsonl" --json; jq .workload_hash <<<"$out")" \
	"$(run trace info --dataset-path "$tmp/tree.jsonl" --json; jq .workload_hash <<<"$out")"
kernels=(--backend cpu --model llama-110m --weights random:1 --num-gpu-blocks-override 200 --policy vllm_v1 --json)
run replay --dataset-path "$tmp/tree.jsonl" "${kernels[@]}" --db "$db" --check
expect "real pages are copied, every read is verified" holds "$out" '.completed == 5 and .forks == 3 and .copied_blocks >= 2'
hash=$(jq -r .decision_hash <<<"$out")
run replay --run 1 --db "$db" --no-db --json
expect "the recording gives the same decisions" holds "$out" ".decision_hash == \"$hash\""
run decisions 1 --db "$db"
expect "which tell of copies" has "$out" "copy"

run "${sim[@]}" --beam-width 4 --beam-every 16 --check
expect "beams are dropped and forked" holds "$out" '.settings.beam_width == 4 and .completed > 110 and .aborted + .rejected == 0 and
	.copied_blocks > 40 and .kv_sharing_saved > 0.4 and .total_output_tokens == 4 * '"$(jq .total_output_tokens <<<"$alone")"
run replay --dataset-name random --num-prompts 3 --random-input-len 30 --random-output-len 24 "${kernels[@]}" --no-db --check \
	--beam-width 3 --beam-every 4
expect "on real kernels, too" holds "$out" '.completed > 12 and .copied_blocks > 5'
expect "samples or beams" refused "give one of them" "${sim[@]}" --n 2 --beam-width 2

small=(replay --dataset-path "$tmp/tree.jsonl" --model llama-3.1-8b --device h100-sxm)
expect "two ways to fork" refused "the trace says itself where its requests fork" "${small[@]}" --n 2
expect "no samples" refused "--n" "${small[@]}" --n 0
expect "pages that are dropped" refused "take --kv-retention full" "${small[@]}" --kv-retention window --kv-window 64
expect "pages behind the device" refused "leave out --swap-space" "${small[@]}" --policy vllm_v0:preemption_mode=swap --swap-space 1
finish
