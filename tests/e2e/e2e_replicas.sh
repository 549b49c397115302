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
expect "an unknown router" refused "did you mean power_of_two" replay "${served[@]}" --replicas 2 --router power_of_tow "$sample"
expect "staleness of nothing" refused "no router" replay "${served[@]}" --router-staleness 5 "$sample"
expect "steps of several" refused "kept of one replica" replay "${served[@]}" --replicas 2 --record steps "$sample"
expect "decisions of several" refused "3 replicas" decisions 1 --db "$tmp/r.db"
expect "real kernels" refused "are simulated" replay --backend cpu --model llama-110m --replicas 2 "$sample" --no-db
finish
