#!/bin/bash
# Memory behind the device, as typed: requests swapped out, prefixes kept in host memory and on disk; simulated, on real
# kernels with every read verified, replayed; and what is refused.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/r.db

# Eight documents, each asked about three times, in turns: where there is no room for all of them, each is evicted before it
# is asked for again.
for i in $(seq 0 23); do
	echo "{\"arrival_s\": $((i / 10)).$((i % 10)), \"input_tokens\": 200, \"output_tokens\": 8, \"prefix\": [{\"id\": $((1000 + i % 8)), \"tokens\": 192}]}"
done >"$tmp/documents.jsonl"

served=(--model llama-3.1-8b --device h100-sxm)
# With little for the host to do in a step, so that copies are not hidden behind it.
cached=(replay --cost-model "roofline:step=300us,request=3us" --dataset-path "$tmp/documents.jsonl" "${served[@]}" --policy vllm_v1 --prefix-cache hash --num-gpu-blocks-override 40
	--no-db --json --check)
run "${cached[@]}"
expect "evicted before they are asked for again" holds "$out" '.completed == 24 and .prefix_hit_ratio == 0 and .saved_blocks == 0'
run "${cached[@]}" --kv-offload-host 4
expect "host memory has all of them" holds "$out" '.completed == 24 and .prefix_hit_ratio > 0.6 and .host_hit_blocks == 16 * 12 and
	.disk_hit_blocks == 0 and .cold_hit_ratio > 0.6 and .cold_dropped_blocks == 0'
expect "whose time is a part of each request's" holds "$out" '.transfer_share > 0 and .host_hit_bytes == 16 * 12 * 2097152'
run "${cached[@]}" --kv-offload-host 0.06
expect "a small one has none when they come back" holds "$out" '.host_hit_blocks == 0 and .cold_dropped_blocks > 0'
run "${cached[@]}" --kv-offload-host 0.06 --kv-offload-disk 1
expect "a disk behind it has" holds "$out" '.disk_hit_blocks > 150 and .disk_read_bytes == .disk_hit_blocks * 2097152 and .cold_dropped_blocks == 0'
slow=$(jq .mean_ttft_ms <<<"$out")
run "${cached[@]}" --kv-offload-host 0.06 --kv-offload-disk 1 --kv-disk-bandwidth 1000
expect "and a faster one answers sooner" holds "$out" ".mean_ttft_ms < $slow"
queued=("${cached[@]}" --max-num-seqs 1 --replay-speedup 1.6 --kv-offload-host 0.12 --kv-offload-disk 1 --kv-disk-bandwidth 1)
run "${queued[@]}"
expect "who waits finds its prefix on disk" holds "$out" '.completed == 24 and .disk_hit_blocks > 50 and .prefetched_blocks == 0'
waited=$(jq .mean_ttft_ms <<<"$out")
run "${queued[@]}" --kv-prefetch
expect "or read ahead, and is answered sooner" holds "$out" ".completed == 24 and .prefetched_blocks > 50 and .host_hit_blocks > 50 and
	.disk_read_bytes == (.disk_hit_blocks + .prefetched_blocks) * 2097152 and .mean_ttft_ms < $waited"
run "${cached[@]}" --kv-offload-host 4 --kv-transfer overlap
expect "steps go on beside the copies" holds "$out" '.completed == 24 and .host_hit_blocks == 16 * 12'
run "${cached[@]}" --kv-offload-host 4 --prefix-cache radix
expect "a tree offloads, too" holds "$out" '.completed == 24 and .host_hit_blocks > 150'

crowded=(replay --dataset-name random --num-prompts 40 --random-input-len 300 --random-output-len 200 "${served[@]}"
	--num-gpu-blocks-override 120 --no-db --json --check --policy vllm_v0:preemption_mode=swap)
run "${crowded[@]}" --swap-space 2
expect "who gives way keeps what it has computed" holds "$out" '.completed == 40 and .swaps > 0 and .swaps == .preemptions and
	.recomputed_tokens == 0 and .swap_out_bytes == .swap_in_bytes and .max_swap_used > 0'
run "${crowded[@]}" --swap-space 0.01
expect "without room there it is computed again" holds "$out" '.completed == 40 and .swap_refused > 0 and .recomputed_tokens > 0'
run "${crowded[@]}" --swap-space 2 --kv-transfer overlap
expect "or beside the steps" holds "$out" '.completed == 40 and .swaps > 0 and .recomputed_tokens == 0'

kernels=(--backend cpu --model stories-260k --weights random:1 --policy vllm_v1 --prefix-cache hash --num-gpu-blocks-override 40 --json)
run replay --dataset-path "$tmp/documents.jsonl" "${kernels[@]}" --no-db --check
expect "a cache named by --prefix-cache is verified, too" holds "$out" '.completed == 24'
run replay --dataset-path "$tmp/documents.jsonl" "${kernels[@]}" --db "$db" --check --kv-offload-host 0.0005 --kv-offload-disk 0.01 \
	--kv-offload-dir "$tmp"
expect "real pages go and come back" holds "$out" '.completed == 24 and .host_hit_blocks + .disk_hit_blocks > 100 and .prefix_hit_ratio > 0.5'
expect "nothing of them stays" test -z "$(find "$tmp" -newer "$tmp/documents.jsonl" -name '*kv*')"
hash=$(jq -r .decision_hash <<<"$out")
run replay --run 1 --db "$db" --no-db --json
expect "the recording gives the same decisions" holds "$out" ".decision_hash == \"$hash\""
run decisions 1 --db "$db"
expect "which tell of what came back" has "$out" " load "
run replay --dataset-path "$tmp/documents.jsonl" "${kernels[@]}" --db "$db" --check --kv-offload-host 0.0005 --kv-offload-disk 0.01 \
	--kv-offload-dir "$tmp" --kv-prefetch
expect "real pages are read ahead" holds "$out" '.completed == 24 and .prefetched_blocks > 10 and .host_hit_blocks > 10'
hash=$(jq -r .decision_hash <<<"$out")
run replay --run 2 --db "$db" --no-db --json
expect "in a recording as well" holds "$out" ".decision_hash == \"$hash\""

expect "a disk alone" refused "give --kv-offload-host as well" "${cached[@]}" --kv-offload-disk 1
expect "nothing to read ahead" refused "give --kv-offload-disk as well" "${cached[@]}" --kv-offload-host 1 --kv-prefetch
expect "nothing to keep" refused "give --prefix-cache as well" "${cached[@]}" --prefix-cache off --kv-offload-host 1
expect "a policy that never swaps" refused "never swaps requests out" "${crowded[@]}" --policy sarathi --swap-space 1
expect "dropping and keeping" refused "cannot go with dropping tokens" "${cached[@]}" --kv-offload-host 1 --kv-retention window --kv-window 64
finish
