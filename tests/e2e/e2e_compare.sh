#!/bin/bash
# lockstep compare: what differs, how sure that is; live, over seeds, and of stored runs.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

sample=traces/samples/azure_conv_sample.csv
served=(--model llama-3.1-8b --device l4 --num-prompts 400 "$sample" --db "$tmp/c.db")

run compare "${served[@]}" --policies continuous,chunked --request-rate 1
expect "an effect in words, with its interval" grep -qE 'lowers p99 TTFT by [0-9.]+ % \[[0-9.]+, [0-9.]+\] +noise [0-9.]+ %' <<<"$out"
live=$(grep -E '^  (lowers|raises|no difference|leaves)' <<<"$out")
run compare 1 2 --db "$tmp/c.db"
expect "the same of the stored runs" same "$(grep -E '^  (lowers|raises|no difference|leaves)' <<<"$out")" "$live"
expect "and the same figures" has "$out" "request throughput"
run compare 1 2 --db "$tmp/c.db" --json
expect "JSON has both runs and the effect" holds "$out" '(.runs | length) == 2 and (.effects | length) == 1 and .effects[0].by == "request" and .effects[0].paired'
expect "an interval holds its effect" holds "$out" '.effects[0].figures | length > 5 and all(.low <= .effect and .effect <= .high)'

run compare "${served[@]}" --policies continuous,chunked --request-rate 1 --seeds 5 --json
expect "seeds: every run" holds "$out" '(.runs | length) == 10 and ([.runs[].settings.seed] | unique) == [0, 1, 2, 3, 4]'
expect "paired by what they served" holds "$out" '.effects[0] | .by == "run" and .paired and .runs == 5'
seeds=$(jq -c '.effects[0].figures[] | select(.metric == "mean_ttft_ms") | [.effect, .low, .high]' <<<"$out")
# Runs 3 to 12, the arms of one seed after the other.
run compare 3 4 5 6 7 8 9 10 11 12 --db "$tmp/c.db" --json
expect "stored seeds of one configuration make one side" same "$(jq -c '.effects | length, (.[0].figures[] | select(.metric == "mean_ttft_ms") | [.effect, .low, .high])' <<<"$out")" "1
$seeds"
run decisions 9 --db "$tmp/c.db"
expect "a run of one seed is made again" test "$status" -eq 0 -a -n "$out"
run compare "${served[@]}" --policies continuous,chunked --seeds 3
expect "seeds that change nothing are told" has "$out" "seeds change nothing here"
run compare 1 3 --db "$tmp/c.db"
expect "two runs of one configuration are noise" has "$out" "both are runs of one configuration"
run replay "${served[@]}" --policy chunked --request-rate 2
run compare 1 latest --db "$tmp/c.db"
expect "other requests are not paired" has "$out" "their workloads differ"

expect "a run that is not there" refused "there is no run 99" compare 1 99 --db "$tmp/c.db"
expect "one named twice" refused "run 1 is named twice" compare 1 1 --db "$tmp/c.db"
expect "stored runs are not served anew" refused "runs that are stored are what they are" compare 1 2 --db "$tmp/c.db" --device l4
expect "one trace at a time, still" refused "one trace at a time" compare 1 "$sample" --db "$tmp/c.db"
finish
