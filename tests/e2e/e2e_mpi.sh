#!/bin/bash
# lockstep sweep under mpirun: four ranks, one database; ranks and jobs that die; what a program without MPI says.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

if ! command -v mpirun >/dev/null || [ ! -e "$tmp/lockstep-mpi.so" ]; then
	skip "no mpirun, or built without mpicc"
	finish
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 LOCKSTEP_MPI_PATIENCE=2
db=$tmp/s.db
q() { sqlite3 "$db" "$1"; }
# ranks N [mpirun's own...] -- ARGUMENTS: $out, $err, $status
ranks() {
	local n=$1 own=()
	shift
	while [ "$1" != -- ]; do own+=("$1") && shift; done
	shift
	out=$(timeout 60 mpirun --oversubscribe "${own[@]}" -n "$n" "$LOCKSTEP" "$@" 2>"$tmp/stderr" </dev/null)
	status=$?
	err=$(cat "$tmp/stderr")
}
# The process that mpirun started as that rank, when it is there: a rank's own, not its workers.
process_of() {
	local p
	for p in $(pgrep -P "$1"); do
		if tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$2"; then echo "$p"; fi
	done
}

ranks 4 -- sweep docs/examples/chunk-size.json --db "$db" --csv "$tmp/four.csv"
expect "four ranks do all points" has "$out" "18 points, 18 complete (0 of them were done before), 0 failed"
expect "and one of them tells" same "$status $(grep -c '18 points' <<<"$out")" "0 1"
expect "one has the database" same "$(q "select count(*) from sweeps") $(q "select count(*) from sweep_points")" "1 18"
"$LOCKSTEP" sweep docs/examples/chunk-size.json --db "$tmp/one.db" -j 1 --csv "$tmp/one.csv" >"$tmp/log"
# Run numbers are given in the order in which points end.
expect "the figures are those of one process" cmp -s <(awk -F, '{$6 = ""} 1' "$tmp/one.csv") <(awk -F, '{$6 = ""} 1' "$tmp/four.csv")
ranks 4 -- sweep docs/examples/chunk-size.json --db "$db" -j 2
expect "what is done is not done again" has "$out" "18 complete (18 of them were done before)"
ranks 3 -- sweep docs/examples/chunk-size.json --db "$db" --dry-run
expect "a dry run counts ranks" has "$out" "18 points, 18 done already"
ranks 2 -- sweep docs/examples/chunk-size.json --db "$tmp/two.db" -j 2
expect "several workers in each rank" has "$out" "18 points, 18 complete (0 of them"

cat >"$tmp/bad.json" <<END
{"name": "bad", "base": {"dataset-path": "traces/samples/azure_conv_sample.csv", "model": "llama-3.1-70b"}, "list": [{"device": "l4"}, {"device": "b200"}]}
END
ranks 4 -- sweep "$tmp/bad.json" --db "$db"
expect "a point that fails: exit status 1, and the others go on" same "$status $(grep -c "1 complete (0 of them were done before), 1 failed" <<<"$out")" "1 1"
echo '{"name": "x", "grid": {"max-num-seq": [1, 2]}}' >"$tmp/x.json"
ranks 4 -- sweep "$tmp/x.json" --db "$db"
expect "a wrong experiment: one error, not four" same "$status $(grep -c "unknown option --max-num-seq" <<<"$err")" "2 1"

# Processes that die.
cat >"$tmp/long.json" <<END
{"name": "long", "base": {"dataset-name": "random", "num-prompts": 20000, "request-rate": 10, "model": "llama-3.1-8b", "device": "h100-sxm"},
 "grid": {"policy": ["chunked", "continuous"], "max-num-seqs": [4, 8, 16, 32]}, "seeds": 3}
END
points() { sqlite3 "$db" "select count(*) from sweep_points join sweeps using (sweep_id) where name = 'long' $1" 2>/dev/null || echo 0; }
begin_long() {
	mpirun --timeout 60 --oversubscribe "$@" -n 4 "$LOCKSTEP" sweep "$tmp/long.json" --db "$db" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
	pid=$!
	local before
	before=$(points "")
	for ((i = 0; i < 200; i++)); do [ "$(points "")" -gt "$before" ] && break; sleep 0.05; done
}
forget() { q "pragma foreign_keys = on; delete from runs where run_id in (select run_id from sweep_points join sweeps using (sweep_id) where name = 'long'); delete from sweeps where name = 'long'"; }

begin_long
kill -9 "$(pgrep -P "$(process_of $pid 3)" | head -1)"
wait $pid
expect "a worker that dies costs its point, and no rank" same "$? $(points "and status = 'crashed'") $(points "and status = 'complete'")" "1 1 23"
forget
begin_long --mca orte_enable_recovery 1
kill -9 "$(process_of $pid 2)"
wait $pid
expect "a job that lost a rank ends" test $? -ne 110 # mpirun's time-out
expect "a rank that dies, where the job survives it, is told" grep -q "rank 2 on .* is silent: it gets no more points" "$tmp/stderr"
expect "and costs its point" same "$(points "and status = 'crashed'") $(points "and status = 'complete'")" "1 23"
forget
begin_long
kill -9 "$(process_of $pid 1)"
wait $pid
expect "and where it does not survive" test $? -ne 110
expect "where it does not, mpirun tells" grep -q "process rank 1 .* exited on signal 9" "$tmp/stderr"
forget
begin_long
# shellcheck disable=SC2046 # each is a number
kill -9 $pid $(pgrep -f "$LOCKSTEP sweep") # this test's own copy
wait $pid 2>/dev/null
for ((i = 0; i < 100; i++)); do pgrep -f "$LOCKSTEP" >/dev/null || break; sleep 0.1; done
expect "no process outlives a job" test -z "$(pgrep -f "$LOCKSTEP")"
done_before=$(q "select count(distinct key) from sweep_points join sweeps using (sweep_id) where name = 'long' and run_id is not null and status = 'complete'")
expect "killed: some are done, not all" test "$done_before" -ge 1 -a "$done_before" -lt 24
ranks 4 -- sweep "$tmp/long.json" --db "$db"
expect "the same command does the rest" has "$out" "24 points, 24 complete ($done_before of them were done before)"
expect "the database is whole" same "$(q "pragma integrity_check; pragma foreign_key_check")" ok

# Without the plug-in, and with a starter that MPI knows nothing of.
mkdir "$tmp/bare" && cp "$LOCKSTEP" "$tmp/bare/lockstep"
out=$(timeout 60 mpirun --oversubscribe -n 4 "$tmp/bare/lockstep" sweep docs/examples/chunk-size.json --db "$tmp/bare.db" 2>"$tmp/stderr")
expect "built without MPI: one error" same "$? $(grep -c "started this 4 times, which takes MPI" "$tmp/stderr")" "2 1"
expect "and nothing is run" test -z "$out" -a ! -e "$tmp/bare.db"
out=$(SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=0 timeout 60 "$LOCKSTEP" sweep docs/examples/chunk-size.json --db "$tmp/bare.db" 2>"$tmp/stderr")
expect "ranks that MPI does not see are refused" same "$? $(grep -c "srun started 3 ranks, and MPI sees 1" "$tmp/stderr")" "2 1"
finish
