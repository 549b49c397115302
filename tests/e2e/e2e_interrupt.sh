#!/bin/bash
# Signals, kill -9 and two runs at once: the database always opens and says what happened.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
# Long enough to be caught in the middle of.
long=(replay --model llama-3.1-8b --device h100-sxm --dataset-name random --num-prompts 200000 --request-rate 10
	--record steps --check)

# Waits until the database has a run that goes on.
wait_running() {
	local i
	for ((i = 0; i < 600; i++)); do
		[ "$(sqlite3 "file:$1?mode=ro" "select count(*) from runs where status = 'running'" 2>/dev/null)" = 1 ] && return 0
		sleep 0.1
	done
	return 1
}

# Background jobs of a script ignore SIGINT unless job control is on.
set -m
for signal in INT TERM; do
	db=$tmp/$signal.db
	"$LOCKSTEP" "${long[@]}" --db "$db" >"$tmp/out" 2>"$tmp/stderr" &
	pid=$!
	expect "$signal: the run begins" wait_running "$db"
	kill -"$signal" "$pid"
	wait "$pid"
	status=$?
	out=$(cat "$tmp/out") err=$(cat "$tmp/stderr")
	expect "$signal: exit status 130" same "$status" 130
	expect "$signal: says so" has "$out" "nterrupted"
	expect "$signal: stored as interrupted" same "$(sqlite3 "$db" 'select status from runs')" interrupted
	expect "$signal: the database is whole" same "$(sqlite3 "$db" 'pragma integrity_check')" ok
done

db=$tmp/killed.db
"$LOCKSTEP" "${long[@]}" --db "$db" >"$tmp/out" 2>"$tmp/stderr" &
pid=$!
expect "kill -9: the run begins" wait_running "$db"
sleep 0.5
kill -9 "$pid"
wait "$pid" 2>/dev/null
run runs --db "$db"
expect "kill -9: the database opens" test "$status" -eq 0
expect "kill -9: the run is there" has "$out" "running"
expect "kill -9: the database is whole" same "$(sqlite3 "$db" 'pragma integrity_check')" ok
run replay --model llama-3.1-8b --device h100-sxm --dataset-name random --num-prompts 50 --db "$db" --json
expect "kill -9: it takes the next run" test "$status" -eq 0 -a "$(jq .run_id <<<"$out")" -eq 2

db=$tmp/two.db
short=(replay --model llama-3.1-8b --device h100-sxm --dataset-name random --num-prompts 20000 --request-rate 30
	--record steps --db "$db" --quiet)
"$LOCKSTEP" "${short[@]}" 2>"$tmp/one" &
"$LOCKSTEP" "${short[@]}" --seed 1 2>"$tmp/other"
first=$?
wait $!
second=$?
err=$(cat "$tmp/one" "$tmp/other")
expect "two at once both succeed" test "$first" -eq 0 -a "$second" -eq 0 -a -z "$err"
expect "and both are complete" same "$(sqlite3 "$db" "select count(*) from runs where status = 'complete'")" 2
expect "with all their requests" same "$(sqlite3 "$db" 'select count(*) from requests')" 40000

run replay --model llama-3.1-8b --device h100-sxm --dataset-name random --num-prompts 50 --db "$tmp/head.db" --json
"$LOCKSTEP" replay --model llama-3.1-8b --device h100-sxm --dataset-name random --num-prompts 50 --db "$tmp/head.db" |
	head -1 >/dev/null
expect "a reader that goes away loses no run" same "$(sqlite3 "$tmp/head.db" "select count(*) from runs where status = 'complete'")" 2
finish
