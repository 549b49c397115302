#!/bin/bash
# timeline: a stored run as trace events, which keep the format's rules and say what was left out.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/t.db
sim=(--cost-model "linear:a=5ms,b=20us,c=100us" --db "$db" --quiet)
made=(--dataset-name random --num-prompts 200 --request-rate 40)

# Every track nests and goes forward in time; nothing is left open; every track has a name.
# shellcheck disable=SC2016 # jq has variables, too
nests='.traceEvents | group_by([.pid, .tid]) | all(
	(map(select(.ph == "M" and .name == "thread_name")) | length == 1) and
	([.[] | select(.ph == "B" or .ph == "E")] | reduce .[] as $e ({depth: 0, last: 0, ok: true};
		.depth += (if $e.ph == "B" then 1 else -1 end) | .ok = (.ok and .depth >= 0 and $e.ts >= .last) | .last = $e.ts)
		| .ok and .depth == 0))'

run replay "${sim[@]}" --num-gpu-blocks-override 300 "${made[@]}" --record steps
run compare "${sim[@]}" --num-gpu-blocks-override 300 "${made[@]}" --policies chunked --replicas 2 --router round_robin
run timeline 1 --db "$db" -o "$tmp/a.json"
expect "a timeline is written" test "$status" -eq 0 -a -z "$err" -a -s "$tmp/a.json"
expect "it says what it shows" has "$out" "shows all 200 requests there were in it; all "
expect "it keeps the rules" file_holds "$tmp/a.json" "$nests"
expect "a slice for every step" same "$(jq '[.traceEvents[] | select(.cat == "step")] | length' "$tmp/a.json")" \
	"$(sqlite3 "$db" 'select count(*) from steps')"
expect "every request's first token is where the database has it" same \
	"$(jq -c '[.traceEvents[] | select(.cat == "request").args.ttft_ms] | sort' "$tmp/a.json")" \
	"$(sqlite3 "$db" 'select json_group_array(ttft_ms) from (select ttft_ms from request_latency where run_id = 1 order by 1)')"
run timeline 1 --db "$db" -o -
expect "standard output takes it, the words go elsewhere" same "$out" "$(cat "$tmp/a.json")"
expect "and they are there" has "$err" "shows all 200 requests"
run timeline --db "$db" -o "$tmp/b.json"
expect "latest is the default; replicas are processes" file_holds "$tmp/b.json" \
	'.otherData.run_id == 2 and ([.traceEvents[] | select(.name == "process_name").pid] == [1, 2])'
expect "with steps of their own" file_holds "$tmp/b.json" '[.traceEvents[] | select(.cat == "step").pid] | unique == [1, 2]'
expect "it keeps the rules, too" file_holds "$tmp/b.json" "$nests"
expect "as many steps as there were" same "$(jq .otherData.steps "$tmp/b.json")" \
	"$(sqlite3 "$db" "select cast(value as int) from metrics where run_id = 2 and name = 'steps'")"
run timeline --db "$db" -o "$tmp/b2.json" --from 1 --to 2
expect "a window of it" file_holds "$tmp/b2.json" "($nests)"' and ([.traceEvents[] | select(.cat == "step").pid] | unique == [1, 2])'
run timeline --db "$db" -o "$tmp/b3.json" --totals
expect "without steps it says so" has "$out" "no steps"
expect "and counts who waits and runs" file_holds "$tmp/b3.json" "($nests)"' and ([.traceEvents[] | select(.ph == "C").name] | unique == ["running", "waiting"])'
run timeline 1 --db "$db" --from 1 --to 2.5 --requests 7 --slowest --steps 20 -o "$tmp/c.json"
expect "a window, few of them" has "$out" "shows 7 of the "
expect "no more than asked" file_holds "$tmp/c.json" '[.traceEvents[] | select(.cat == "request")] | length == 7'
expect "nothing outside the window" file_holds "$tmp/c.json" 'all(.traceEvents[] | .ts // 1e6; . >= 1e6 and . <= 2.5e6)'
expect "it keeps the rules cut as well" file_holds "$tmp/c.json" "$nests"
(cd "$tmp" && "$LOCKSTEP" timeline 1 --db "$db" >/dev/null)
expect "a name of its own" test -s "$tmp/timeline-1.json"
expect "nothing is left half written" test -z "$(find "$tmp" -name '*.part')"

# Phases are of the run made again: they are where they were, and add up to what is stored.
run replay "${sim[@]}" --num-gpu-blocks-override 100 --dataset-name random --num-prompts 60 --request-rate 60 --random-input-len 200 \
	--random-output-len 60 --max-num-batched-tokens 128 --max-num-seqs 64
run timeline --db "$db" -o "$tmp/exact.json"
expect "the run is made again" file_holds "$tmp/exact.json" '.otherData.phases | startswith("of the decision log")'
expect "steps are there without being recorded" test "$status" -eq 0 -a "$(jq .otherData.steps "$tmp/exact.json")" -gt 50
expect "it keeps the rules" file_holds "$tmp/exact.json" "$nests"
# Milliseconds of all phases of these names, to the microsecond.
phases() { jq --argjson names "$2" '[.traceEvents[] | select(.cat == "phase" and (.name | IN($names[]))).args.ms] | add * 1e3 | round' "$1"; }
stored() { sqlite3 "$db" "select cast(round(sum($1) * 1e3) as int) from request_latency where run_id = (select max(run_id) from runs)"; }
expect "there were preemptions" test "$(stored preempted_ms)" -gt 0
expect "waiting adds up" same "$(phases "$tmp/exact.json" '["queued"]')" "$(stored queue_ms)"
expect "preemptions add up" same "$(phases "$tmp/exact.json" '["preempted"]')" "$(stored preempted_ms)"
expect "the rest adds up" same "$(phases "$tmp/exact.json" '["prefill", "recompute", "decode", "stalled"]')" "$(stored 'prefill_ms + decode_ms')"
run timeline --db "$db" -o "$tmp/part.json" --from 1 --to 1.5
# What of every phase lies between 1 s and 1.5 s. A phase's end is the next event of its track.
# shellcheck disable=SC2016
within='[.traceEvents | group_by(.tid)[] | [.[] | select(.ph == "B" or .ph == "E")] | . as $t | range(length) | select($t[.].cat == "phase") |
	[$t[.].tid, $t[.].name, ([$t[.].ts, 1e6] | max), ([$t[. + 1].ts, 1.5e6] | min)] | select(.[2] < .[3])] | sort'
expect "a window is the same, cut" same "$(jq -c "$within" "$tmp/part.json")" "$(jq -c "$within" "$tmp/exact.json")"
run timeline --db "$db" -o "$tmp/totals.json" --totals
expect "--totals makes nothing again" file_holds "$tmp/totals.json" '.otherData.phases == "of stored totals" and .otherData.steps == 0'
"$LOCKSTEP" trace generate --num-prompts 20 "$tmp/gone.jsonl" >/dev/null
run replay "${sim[@]}" --num-gpu-blocks-override 900 "$tmp/gone.jsonl"
rm "$tmp/gone.jsonl"
run timeline --db "$db" -o "$tmp/gone.json"
expect "without its trace a run is shown by its totals" test "$status" -eq 0 -a -s "$tmp/gone.json"
expect "and why is said" has "$err" "gone.jsonl"
# Whatever the settings: the rules are kept, and phases add up to each request's latency.
# shellcheck disable=SC2016
adds_up='[.traceEvents | group_by(.tid)[] | ([.[] | select(.cat == "request")][0].args) as $a | select($a != null and $a.state == "finished") |
	([.[] | select(.cat == "phase" and .name != "held").args.ms] | add) - $a.e2el_ms | fabs] | length > 10 and max < 1e-6'
served=(--model llama-3.1-8b --device l4 --num-gpu-blocks-override 600 --num-prompts 30 --length-scale 0.4 --dataset-name sample:azure --db "$db" --quiet)
while read -ra settings; do
	run replay "${served[@]}" "${settings[@]}"
	run timeline --db "$db" -o "$tmp/any.json"
	expect "${settings[*]}" file_holds "$tmp/any.json" "($nests) and ($adds_up)"
done <<'SETTINGS'
--policy vllm_v0:preemption_mode=swap --swap-space 4
--policy vllm_v0:preemption_mode=swap --swap-space 4 --kv-transfer overlap --abort-after 60
--policy naive
--async-scheduling
--prefix-cache radix --kv-offload-host 2 --kv-transfer overlap
--n 2
--policy sglang --scheduling-policy mlfq
SETTINGS
run replay --backend cpu --model stories-260k --num-prompts 20 --length-scale 0.1 --dataset-name sample:azure --db "$db" --quiet
run timeline --db "$db" -o "$tmp/any.json"
expect "real kernels" file_holds "$tmp/any.json" "($nests) and ($adds_up)"

# Names in a trace that would break something.
printf '%s\n' '{"arrival_s": 0, "input_tokens": 20, "output_tokens": 4, "id": "</script>\u001b[31m\"\n\u202e"}' >"$tmp/names.jsonl"
run replay "${sim[@]}" --num-gpu-blocks-override 900 "$tmp/names.jsonl"
expect "a trace with such names" test "$status" -eq 0
run timeline --db "$db" -o "$tmp/names.json"
expect "they are text" file_holds "$tmp/names.json" 'any(.traceEvents[]; .cat == "request" and .name == "</script>?[31m\"??")'

expect "no such run" refused "there is no run 99" timeline 99 --db "$db" -o "$tmp/x.json"
expect "one at a time" refused "one too many" timeline 1 2 --db "$db"
expect "a window turned round" refused "nothing lies between" timeline --from 5 --to 2 --db "$db"
run replay "${sim[@]}" --num-gpu-blocks-override 300 "${made[@]}" --record none
expect "a run of which nothing is kept" refused "made with --record none" timeline --db "$db" -o "$tmp/x.json"
run timeline 1 --db "$db" -o "$tmp/no/folder.json"
expect "a path that cannot be" test "$status" -eq 1 -a -n "$err"
finish
