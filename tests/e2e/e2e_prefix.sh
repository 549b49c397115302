#!/bin/bash
# lockstep replay --prefix-cache, --prefix-eviction and --cache-salt, as typed, and the figures they bring.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

# Five prompts of 64 tokens, for two tenants (classes), twice: one request after the other, so that what came before is there unless it
# was evicted.
i=0
for tenant in acme bits acme bits; do
	for prompt in 1 2 3 4 5; do
		i=$((i + 1))
		echo "{\"id\": \"r$i\", \"arrival_s\": $i, \"input_tokens\": 64, \"output_tokens\": 2," \
			"\"class\": \"$tenant\", \"prefix\": [{\"id\": $prompt, \"tokens\": 64}]}"
	done
done >"$tmp/trace.jsonl"
args=(replay --dataset-path "$tmp/trace.jsonl" --model llama-3.1-8b --device h100-sxm --policy vllm_v1)

# figures WORDS...: those of one run, in $out.
figures() {
	run "${args[@]}" --no-db --json "$@"
}

# 15 of 20 requests find 3 of their 4 blocks: the last token is always computed, and with it its block once more.
figures --prefix-cache hash
expect "hash" holds "$out" '.prefix_hit_ratio == 0.5625 and .prefix_request_hit_ratio == 0.75
	and .prefix_block_hit_ratio == 0.5625 and .prefix_ideal_block_hit_ratio == 0.75 and .evicted_blocks == 0
	and .duplicate_blocks == 15 and .prefix_wasted_bytes == 15 * 16 * 131072'
expect "hash goes by lru" holds "$out" '[.. | .prefix_eviction? // empty] == ["lru"]'
run "${args[@]}" --no-db --prefix-cache hash
expect "the report says what was found" has "$out" "56.25 % of prompt tokens found in the cache (cold at the start), by 75.00 % of requests"
expect "and what was evicted" has "$out" "0 blocks evicted (lru), 15 filled twice"
figures --prefix-cache radix
expect "radix" holds "$out" '.prefix_hit_ratio == 0.5625 and .duplicate_blocks == 15
	and [.. | .prefix_eviction? // empty] == ["leaf-lru"]'
figures --prefix-cache hash --cache-salt tenant
expect "tenants that do not share" holds "$out" '.prefix_request_hit_ratio == 0.5
	and [.. | .cache_salt? // empty] == ["tenant"]'
figures --prefix-cache off
expect "off" holds "$out" '.prefix_hit_ratio == null and .prefix_request_hit_ratio == null and .duplicate_blocks == 0'

# Memory for two or three of the five prompts.
for cache in hash radix; do
	for rule in lru lfu fifo leaf-lru cost-aware; do
		case $cache-$rule in
		hash-leaf-lru | hash-cost-aware)
			expect "$cache by $rule" refused "--prefix-eviction $rule does not go with --prefix-cache hash" \
				"${args[@]}" --prefix-cache "$cache" --prefix-eviction "$rule"
			;;
		*)
			figures --prefix-cache "$cache" --prefix-eviction "$rule" --num-gpu-blocks-override 14
			expect "$cache by $rule" holds "$out" ".evicted_blocks > 0 and .completed == 20
				and [.. | .prefix_eviction? // empty] == [\"$rule\"]"
			;;
		esac
	done
done
expect "a rule without a cache" refused "there is none: add --prefix-cache" "${args[@]}" --prefix-eviction lru
expect "an unknown rule" refused "lru" "${args[@]}" --prefix-cache hash --prefix-eviction lur
expect "an unknown salt" refused "tenant" "${args[@]}" --prefix-cache hash --cache-salt tenent

run compare --dataset-path "$tmp/trace.jsonl" --model llama-3.1-8b --device h100-sxm --policies vllm_v1,sglang \
		--no-db --prefix-cache hash,radix --prefix-eviction lru,lfu --num-gpu-blocks-override 14
expect "compare takes lists of both" same "$status" 0
expect "and names the arms" has "$out" "lfu"
run trace info "$tmp/trace.jsonl" --json
expect "trace info knows what an endless cache finds" holds "$out" '.prefix_ideal_block_hit_ratio == 0.75'
finish
