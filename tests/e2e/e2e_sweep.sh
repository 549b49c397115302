#!/bin/bash
# lockstep sweep: experiments as a user runs them, interrupted, killed and taken up again.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

sample=traces/samples/azure_conv_sample.csv
db=$tmp/s.db
q() { sqlite3 "$db" "$1"; }

run sweep docs/examples/chunk-size.json --db "$db" --dry-run
expect "a dry run says how many and how long" has "$out" "18 to do, about"
expect "and makes no database" test ! -e "$db"
run sweep docs/examples/chunk-size.json --db "$db" -j 2 --csv "$tmp/a.csv"
expect "all points" same "$status" 0
expect "are complete" has "$out" "18 points, 18 complete (0 of them were done before), 0 failed"
expect "a table of points" same "$(wc -l <"$tmp/a.csv")" 19
expect "a point is what replay makes of it" same "$(q "select printf('%.6f', value) from metrics join sweep_points using (run_id) where position = 4 and name = 'mean_ttft_ms'")" \
	"$("$LOCKSTEP" replay --model llama-3.1-8b --device h100-sxm --replay-speedup 0.5 --max-num-batched-tokens 2048 "$sample" --no-db --json | jq -r '.mean_ttft_ms' | xargs printf %.6f)"
run sweep docs/examples/chunk-size.json --db "$db" -j 1 --csv "$tmp/b.csv"
expect "again: nothing to do" has "$out" "18 complete (18 of them were done before)"
expect "and the same table" cmp -s "$tmp/a.csv" "$tmp/b.csv"
"$LOCKSTEP" sweep docs/examples/chunk-size.json --db "$tmp/one.db" -j 1 --csv "$tmp/one.csv" >"$tmp/log"
"$LOCKSTEP" sweep docs/examples/chunk-size.json --db "$tmp/three.db" -j 3 --csv "$tmp/three.csv" >"$tmp/log"
# Run numbers are given in the order in which points end.
expect "the same figures however many run at once" cmp -s <(awk -F, '{$6 = ""} 1' "$tmp/one.csv") <(awk -F, '{$6 = ""} 1' "$tmp/three.csv")

# Another experiment with some of the same points.
cat >"$tmp/other.json" <<END
{"name": "other", "base": {"dataset-path": "$sample", "device": "h100-sxm", "policy": "chunked", "model": "llama-3.1-8b", "goodput": ["ttft:500", "tpot:50"]},
 "grid": {"max-num-batched-tokens": [512, 600], "replay-speedup": [1]}}
END
run sweep "$tmp/other.json" --db "$db"
expect "a point is known by its content" has "$out" "2 points, 2 complete (1 of them were done before)"

# One that cannot be done, beside others.
cat >"$tmp/bad.json" <<END
{"name": "bad", "base": {"dataset-path": "$sample", "model": "llama-3.1-70b"}, "list": [{"device": "l4"}, {"device": "b200"}]}
END
run sweep "$tmp/bad.json" --db "$db" --csv "$tmp/bad.csv"
expect "a point that fails: exit status 1" same "$status" 1
expect "is kept with its reason" has "$out" "point 1 failed: llama-3.1-70b does not fit on l4"
expect "and the others go on" has "$out" "2 points, 1 complete (0 of them were done before), 1 failed"
expect "in the table too" grep -q '^1,l4,failed,"*llama-3.1-70b does not fit' "$tmp/bad.csv"

# Killed in the middle, a worker and all of it.
cat >"$tmp/long.json" <<END
{"name": "long", "base": {"dataset-name": "random", "num-prompts": 20000, "request-rate": 10, "model": "llama-3.1-8b", "device": "h100-sxm"},
 "grid": {"policy": ["chunked", "continuous"], "max-num-seqs": [4, 8, 16, 32]}, "seeds": 3}
END
"$LOCKSTEP" sweep "$tmp/long.json" --db "$db" -j 2 --quiet 2>/dev/null &
pid=$!
points() { sqlite3 "$db" "select count(*) from sweep_points join sweeps using (sweep_id) where name = 'long' $1" 2>/dev/null || echo 0; }
for ((i = 0; i < 200; i++)); do [ "$(points "")" -ge 2 ] && break; sleep 0.05; done
kill -9 "$(pgrep -P $pid | head -1)"
wait $pid
expect "a worker that dies costs its point" same "$? $(points "and status = 'crashed'")" "1 1"
expect "and no other" same "$(points "and status = 'complete'")" 23
q "pragma foreign_keys = on; delete from runs where run_id in (select run_id from sweep_points join sweeps using (sweep_id) where name = 'long')"
"$LOCKSTEP" sweep "$tmp/long.json" --db "$db" -j 2 --quiet 2>/dev/null &
pid=$!
for ((i = 0; i < 200; i++)); do [ "$(points "and run_id is not null")" -ge 3 ] && break; sleep 0.05; done
kill -9 $pid
wait $pid 2>/dev/null
done_before=$(points "and run_id is not null and status = 'complete'")
expect "killed: some are done, not all" test "$done_before" -ge 3 -a "$done_before" -lt 24
run sweep "$tmp/long.json" --db "$db" -j 2
expect "the same command does the rest" has "$out" "24 points, 24 complete ($done_before of them were done before)"
expect "the database is whole" same "$(q "pragma integrity_check; pragma foreign_key_check")" ok

expect "a file is needed" refused "which experiment" sweep
expect "one that is there" refused "cannot be read" sweep "$tmp/none.json"
echo '{"name": "x", "grid": {"max-num-seq": [1, 2]}}' >"$tmp/x.json"
expect "flags are checked before anything runs" refused "point 1: unknown option --max-num-seq" sweep "$tmp/x.json" --db "$db"
echo '{"name": "x", "base": {"db": "y"}}' >"$tmp/x.json"
expect "the sweep's own flags are not for points" refused "db is not for points" sweep "$tmp/x.json" --db "$db"
echo '{"name": "x", "base": {"backend": "cpu", "model": "llama-110m"}}' >"$tmp/x.json"
expect "points are simulated" refused "are simulated" sweep "$tmp/x.json" --db "$db"
finish
