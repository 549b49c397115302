#!/bin/bash
# docs/examples: every experiment is planned and run, and what Python reads is what the program stored.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

db=$tmp/x.db
n=0
for file in docs/examples/*.json; do
	name=$(basename "$file" .json)
	[ "$name" = experiment.schema ] && continue
	n=$((n + 1))
	expect "docs/examples/README.md tells of $name" grep -q "($name.json)" docs/examples/README.md
	expect "$name says what it is about" file_holds "$file" '.about | length > 20'
	run sweep "$file" --dry-run
	expect "$name is planned" same "$status" 0
	points=$(sed -n 's/^[^:]*: \([0-9]*\) points.*/\1/p' <<<"$out")
	expect "$name has a few points" test "${points:-0}" -ge 6 -a "${points:-0}" -le 40
	# e2e_sweep.sh runs that one.
	[ "$name" = chunk-size ] && continue
	run sweep "$file" --db "$db" -j 2 --csv "$tmp/$name.csv"
	expect "$name is run" test "$status" -eq 0 -a "$(wc -l <"$tmp/$name.csv")" -eq $((points + 1))
done
expect "there are five and more" test "$n" -ge 5
query=$(sed -n '/^    sqlite3 -box examples.db/,/ORDER BY position"/p' docs/examples/README.md | tr '\n' ' ' | cut -d'"' -f2)
expect "the page's query answers" test "$(sqlite3 "$db" "$query" | wc -l)" -eq "$points"

"$LOCKSTEP" compare --policies naive,continuous,chunked --model llama-3.1-8b --device h100-sxm --dataset-name sample:azure --num-prompts 400 --db "$tmp/runs.db" >"$tmp/log"
python=
for one in python3 /usr/bin/python3; do
	"$one" -c 'import sqlite3' 2>"$tmp/log" && [ -z "$python" ] && python=$one
	"$one" -c 'import pandas' 2>"$tmp/log" && pandas=$one
done
if [ -n "$python" ]; then
	expect "plain Python reads runs and computes the same percentiles" "$python" docs/examples/read_runs_sqlite.py "$tmp/runs.db" >"$tmp/py"
	expect "of all three" test "$(grep -cE '^ +[123] ' "$tmp/py")" -eq 3
else
	skip "no Python"
fi
if [ -n "${pandas:-}" ]; then
	expect "so does pandas" "$pandas" docs/examples/read_runs.py "$tmp/runs.db" >"$tmp/py"
	expect "and says so" grep -q "largest difference from the stored p99: 0.0000" "$tmp/py"
else
	skip "no pandas"
fi
finish
