#!/bin/bash
# lockstep slo: which rate meets objectives, and what it costs.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

sample=traces/samples/azure_conv_sample.csv
served=(--model llama-3.1-8b --device h100-sxm "$sample")
run slo --db "$tmp/s.db" "${served[@]}" --goodput ttft:500 tpot:50 --attainment 0.9 --json
expect "it is searched" same "$status" 0
expect "a bracket of 2 %" holds "$out" '.configurations[0] | .outcome == "bracketed" and .fails_at / .max_request_rate <= 1.0201'
expect "a price" holds "$out" '.configurations[0].dollars_per_good_request > 0'
expect "points in order of rate" holds "$out" '.configurations[0].points | map(.request_rate) | . == sort'
expect "the same again" same "$("$LOCKSTEP" slo --no-db "${served[@]}" --goodput ttft:500 tpot:50 --attainment 0.9 --json)" "$out"
one=$(jq -r '.configurations[0].max_request_rate' <<<"$out")
# What passes there passes when it is replayed there.
speedup=$(jq -r '.configurations[0].max_request_rate / .trace_request_rate' <<<"$out")
good=$(jq -r '.configurations[0] | . as $c | .points[] | select(.request_rate == $c.max_request_rate) | .good' <<<"$out")
run replay "${served[@]}" --policy chunked --replay-speedup "$speedup" --goodput ttft:500 tpot:50 --no-db --json
expect "replay finds as many good requests, or one more or less" holds "$out" "(.request_goodput * .duration - $good) | fabs <= 1.01"

run slo --db "$tmp/s.db" --model llama-3.1-8b --devices h100-sxm,l4 --policies continuous,chunked "$sample" --goodput ttft:500 --attainment 0.9
expect "four configurations" same "$(grep -cE '^(continuous|chunked) device=[a-z0-9-]+ +[0-9.]+[ $][ *][ +] ' <<<"$out")" 4
run slo --db "$tmp/s.db" "${served[@]}" --tensor-parallel-size 1,2 --goodput ttft:500 tpot:50 --attainment 0.9 --json
expect "two devices serve more than one" holds "$out" ".configurations[1].max_request_rate > $one and .configurations[0].max_request_rate == $one"
run slo --db "$tmp/s.db" "${served[@]}" --goodput tpot:0.1 --attainment 0.9
expect "what is never met" has "$out" "not met at the lowest rate tried"
expect "objectives are needed" refused "no objective" slo --no-db "${served[@]}"
expect "a model that does not fit" has "$("$LOCKSTEP" slo --no-db --model llama-3.1-70b --device l4 "$sample" --goodput ttft:500)" "cannot serve it"
expect "profiles are not for it" refused "calibrate a roofline" slo --no-db "${served[@]}" --goodput ttft:500 --cost-model profiled
expect "requests that all come at once" refused "arrive at once" slo --no-db --model llama-3.1-8b --device h100-sxm \
	--dataset-name random --num-prompts 50 --request-rate inf --goodput ttft:500

# Fewest replicas, and what they cost.
run slo --db "$tmp/s.db" "${served[@]}" --find replicas --request-rate 60 --goodput ttft:500 tpot:50 --attainment 0.9 --json
expect "a number of replicas" holds "$out" '.find == "replicas" and (.configurations[0] | .replicas > 1 and .fails_with == .replicas - 1)'
# shellcheck disable=SC2016 # of jq
expect "of which one fewer fails" holds "$out" '.configurations[0] | . as $c | .points | all((.replicas < $c.replicas) != .passes)'
n=$(jq -r '.configurations[0].replicas' <<<"$out")
expect "each is paid for" holds "$out" ".configurations[0].price_per_hour == $n * 2.69"
run replay "${served[@]}" --policy chunked --request-rate 60 --replicas "$n" --goodput ttft:500 tpot:50 --no-db --json
expect "replay with so many agrees" holds "$out" "(.request_goodput * .duration / .num_prompts) >= 0.9"
run slo --no-db --model llama-3.1-8b --devices h100-sxm,b200,l4 --find cheapest --arrivals trace --request-rate 40 "$sample" --goodput ttft:500 tpot:50 --attainment 0.9
expect "the cheapest is named" has "$out" "Cheapest: device="
expect "what cannot be cheaper is not tried further" has "$out" "more would cost no less than the cheapest above"
expect "replicas are what is looked for" refused "leave --replicas away" slo --no-db "${served[@]}" --find replicas --replicas 2 --goodput ttft:5
expect "a pattern needs a rate" refused "plays the trace's own pattern" slo --no-db "${served[@]}" --arrivals trace --goodput ttft:5

# Classes.
for i in $(seq 400); do
	echo "{\"arrival_s\": $((i / 20)).$((i % 20 + 10)), \"input_tokens\": 500, \"output_tokens\": 50, \"class\": \"$([ $((i % 4)) = 0 ] && echo batch || echo chat)\"}"
done >"$tmp/classes.jsonl"
run slo --db "$tmp/s.db" --model llama-3.1-8b --device h100-sxm "$tmp/classes.jsonl" --goodput ttft:100 batch/ttft:none batch/e2el:20000 --attainment 0.9 --json
expect "each class is counted" holds "$out" '.configurations[0].points[0].classes | map(.class) == ["batch", ""] and .[0].requests == 100'
run slo --no-db --model llama-3.1-8b --device h100-sxm "$tmp/classes.jsonl" --goodput chat/ttft:100 --attainment 0.9
expect "and named" has "$out" "chat falls short first"
expect "a class that is not there" refused "there are chat, batch" replay --no-db --model llama-3.1-8b --device h100-sxm "$tmp/classes.jsonl" --goodput chit/ttft:100
expect "searches are stored" same "$(sqlite3 "$tmp/s.db" "select count(*), min(n) > 3 from (select count(*) n from slo_configurations join slo_points using (search_id, position) group by search_id, position)")" "10|1"
expect "with what was found" same "$(sqlite3 "$tmp/s.db" "select count(*) from slo_searches s join slo_configurations c using (search_id) where find = 'replicas' and c.replicas = $n and c.fails_at = $n - 1 and goodput = 'ttft:500 tpot:50'")" 1
finish
