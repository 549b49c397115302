#!/bin/bash
# Several replicas behind a router, as a user asks for them.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

sample=traces/samples/azure_conv_sample.csv
served=(--model llama-3.1-8b --device h100-sxm --db "$tmp/r.db")
run replay "${served[@]}" --replicas 3 "$sample" --replay-speedup 4 --json
expect "three replicas" holds "$out" '.settings.replicas == 3 and .settings.router == "round_robin" and .completed == 2000'
expect "each served a third" same "$(sqlite3 "$tmp/r.db" "select group_concat(n) from (select count(*) n from requests group by replica)")" "667,667,666"
expect "shares are means over the replicas" holds "$out" '.busy_share > 0.5 and .busy_share <= 1'
run compare "${served[@]}" --policies chunked --replicas 2 --router random,least_outstanding "$sample"
expect "routers side by side" has "$out" "router=least_out"
run replay "${served[@]}" --replicas 1 --router random "$sample" --json --no-db
one=$(jq -c 'del(.date, .sim_wall_s, .settings) | .' <<<"$out")
run replay "${served[@]}" "$sample" --json --no-db
expect "one behind a router is as none" same "$one" "$(jq -c 'del(.date, .sim_wall_s, .settings) | .' <<<"$out")"
run replay "${served[@]}" --replicas 2 --policy vllm_v0:preemption_mode=swap --swap-space 4 --num-gpu-blocks-override 900 --max-num-batched-tokens 8192 --replay-speedup 6 "$sample" --json --no-db
expect "each swaps to a host of its own" holds "$out" '.completed == 2000 and .swaps > 10'
run slo --no-db --model llama-3.1-8b --device h100-sxm --replicas 1,2 --router least_outstanding --goodput ttft:500 tpot:20 --attainment 0.95 --json "$sample"
expect "two serve nearly twice as much" holds "$out" '.configurations | .[1].max_request_rate / .[0].max_request_rate | . > 1.6 and . < 2.3'
expect "at twice the price" holds "$out" '.configurations | .[1].price_per_hour == 2 * .[0].price_per_hour'
# Replicas that differ.
plain() { jq -c 'del(.date, .sim_wall_s, .settings, .arguments)' <<<"$out"; }
for router in least_outstanding random; do
	run replay "${served[@]}" --replicas 3 --router $router --policy vllm_v1 "$sample" --json --no-db
	equal=$(plain)
	for fleet in 3xh100-sxm 1xh100-sxm:policy=vllm_v1:max-num-seqs=256+2xh100-sxm; do
		run replay --model llama-3.1-8b --fleet $fleet --router $router --policy vllm_v1 "$sample" --json --no-db
		expect "a fleet of equals is so many replicas ($router, $fleet)" same "$(plain)" "$equal"
	done
done
fleet=1xh100-sxm+2xl40s:policy=sglang:max-num-seqs=16
run replay --model llama-3.1-8b --db "$tmp/r.db" --fleet $fleet --router least_outstanding --replay-speedup 4 "$sample" --json
expect "a fleet of unlike ones" holds "$out" '.completed == 2000 and .settings.replicas == 3 and .settings.fleet == "'$fleet'"'
expect "its price is the sum" holds "$out" '.price_per_hour > 2.69 + 0.7 and .price_per_hour < 2.69 + 2.5'
expect "is stored" same "$(sqlite3 "$tmp/r.db" "select fleet || ' ' || replicas || ' ' || device from runs where run_id = (select max(run_id) from runs)")" "$fleet 3 h100-sxm"
served_by() { sqlite3 "$tmp/r.db" "select count(*) from requests where replica = $1 and id >> 32 = (select max(run_id) from runs)"; }
expect "the faster one serves more, by its load alone" test "$(served_by 0)" -gt $(($(served_by 1) * 3 / 2))
run replay --model llama-3.1-8b --fleet 1xh100-sxm+1xh100-sxm:num-gpu-blocks-override=300 --replay-speedup 4 "$sample" --json --no-db
expect "memory differs too" holds "$out" '.preemptions > 10'
run slo --no-db --model llama-3.1-8b --fleet 1xh100-sxm+1xl40s --router least_outstanding --goodput ttft:500 tpot:50 --attainment 0.95 --json "$sample"
expect "a fleet has a highest rate as well" holds "$out" '.configurations[0] | .max_request_rate > 5 and .price_per_hour > 2.69'
fleet() { refused "$1" replay --model llama-3.1-8b --no-db --fleet "$2" "$sample"; }
expect "so many of what" fleet "so many replicas, x and a device" h100-sxm
expect "no such device" fleet "did you mean l4 or l40s" 2xl40
expect "what cannot differ" fleet 'cannot differ in "max-num-seq" (did you mean max-num-seqs?)' 2xl40s:max-num-seq=3
expect "a number" fleet "max-num-seqs=many is not a whole number" 2xl40s:max-num-seqs=many
expect "no such policy" fleet 'no policy is called "foo"' 2xl40s:policy=foo
expect "no such parameter" fleet 'no parameter "foo"' 2xl40s:policy=vllm_v1:policy.foo=1
expect "not with --replicas" refused "without --replicas" replay --model llama-3.1-8b --fleet 2xl4 --replicas 2 "$sample"
expect "nor with --device" refused "without --device" replay --model llama-3.1-8b --fleet 2xl4 --device l4 "$sample"
expect "how many of a fleet is not looked for" refused "already says how many" slo --model llama-3.1-8b --fleet 2xl4 --find replicas --goodput ttft:500 --request-rate 3 "$sample"
expect "an unknown router" refused "did you mean power_of_two" replay "${served[@]}" --replicas 2 --router power_of_tow "$sample"
expect "staleness of nothing" refused "no router" replay "${served[@]}" --router-staleness 5 "$sample"
expect "steps of several" refused "kept of one replica" replay "${served[@]}" --replicas 2 --record steps "$sample"
expect "decisions of several" refused "3 replicas" decisions 1 --db "$tmp/r.db"
expect "real kernels" refused "are simulated" replay --backend cpu --model llama-110m --replicas 2 "$sample" --no-db
finish
