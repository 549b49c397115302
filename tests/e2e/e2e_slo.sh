#!/bin/bash
# lockstep slo: which rate meets objectives, and what it costs.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

sample=traces/samples/azure_conv_sample.csv
served=(--model llama-3.1-8b --device h100-sxm "$sample")
run slo "${served[@]}" --goodput ttft:500 tpot:50 --attainment 0.9 --json
expect "it is searched" same "$status" 0
expect "a bracket of 2 %" holds "$out" '.configurations[0] | .outcome == "bracketed" and .fails_at / .max_request_rate <= 1.0201'
expect "a price" holds "$out" '.configurations[0].dollars_per_good_request > 0'
expect "points in order of rate" holds "$out" '.configurations[0].points | map(.request_rate) | . == sort'
expect "the same again" same "$("$LOCKSTEP" slo "${served[@]}" --goodput ttft:500 tpot:50 --attainment 0.9 --json)" "$out"
one=$(jq -r '.configurations[0].max_request_rate' <<<"$out")
# What passes there passes when it is replayed there.
speedup=$(jq -r '.configurations[0].max_request_rate / .trace_request_rate' <<<"$out")
good=$(jq -r '.configurations[0] | . as $c | .points[] | select(.request_rate == $c.max_request_rate) | .good' <<<"$out")
run replay "${served[@]}" --policy chunked --replay-speedup "$speedup" --goodput ttft:500 tpot:50 --no-db --json
expect "replay finds as many good requests, or one more or less" holds "$out" "(.request_goodput * .duration - $good) | fabs <= 1.01"

run slo --model llama-3.1-8b --devices h100-sxm,l4 --policies continuous,chunked "$sample" --goodput ttft:500 --attainment 0.9
expect "four configurations" same "$(grep -cE '^(continuous|chunked) device=[a-z0-9-]+ +[0-9.]+[ $][ *] ' <<<"$out")" 4
run slo "${served[@]}" --tensor-parallel-size 1,2 --goodput ttft:500 tpot:50 --attainment 0.9 --json
expect "two devices serve more than one" holds "$out" ".configurations[1].max_request_rate > $one and .configurations[0].max_request_rate == $one"
run slo "${served[@]}" --goodput tpot:0.1 --attainment 0.9
expect "what is never met" has "$out" "not met at the lowest rate tried"
expect "objectives are needed" refused "no objective" slo "${served[@]}"
expect "a model that does not fit" has "$("$LOCKSTEP" slo --model llama-3.1-70b --device l4 "$sample" --goodput ttft:500)" "cannot serve it"
expect "profiles are not for it" refused "calibrate a roofline" slo "${served[@]}" --goodput ttft:500 --cost-model profiled
expect "requests that all come at once" refused "arrive at once" slo --model llama-3.1-8b --device h100-sxm \
	--dataset-name random --num-prompts 50 --request-rate inf --goodput ttft:500
finish
