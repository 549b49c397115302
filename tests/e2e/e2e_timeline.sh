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
expect "it says that there are no steps" has "$out" "no steps"
expect "it keeps the rules, too" file_holds "$tmp/b.json" "$nests"
run timeline 1 --db "$db" --from 1 --to 2.5 --requests 7 --slowest --steps 20 -o "$tmp/c.json"
expect "a window, few of them" has "$out" "shows 7 of the "
expect "no more than asked" file_holds "$tmp/c.json" '[.traceEvents[] | select(.cat == "request")] | length == 7'
expect "nothing outside the window" file_holds "$tmp/c.json" 'all(.traceEvents[] | .ts // 1e6; . >= 1e6 and . <= 2.5e6)'
expect "it keeps the rules cut as well" file_holds "$tmp/c.json" "$nests"
(cd "$tmp" && "$LOCKSTEP" timeline 1 --db "$db" >/dev/null)
expect "a name of its own" test -s "$tmp/timeline-1.json"
expect "nothing is left half written" test -z "$(find "$tmp" -name '*.part')"

expect "no such run" refused "there is no run 9" timeline 9 --db "$db" -o "$tmp/x.json"
expect "one at a time" refused "one too many" timeline 1 2 --db "$db"
expect "a window turned round" refused "nothing lies between" timeline --from 5 --to 2 --db "$db"
run replay "${sim[@]}" --num-gpu-blocks-override 300 "${made[@]}" --record none
expect "a run of which nothing is kept" refused "made with --record none" timeline --db "$db" -o "$tmp/x.json"
run timeline 1 --db "$db" -o "$tmp/no/folder.json"
expect "a path that cannot be" test "$status" -eq 1 -a -n "$err"
finish
