#!/bin/bash
# run.sh PROGRAM...: runs test programs, two at a time, each with a time limit; prints a line for each and the log of
# those that fail. The last line is `N passed, N failed, N skipped`. A program says `NAME: P passed, F failed, S skipped`
# at its end; one that says nothing of the kind, or ends badly without a failure, counts as one failed.
# TEST_TIMEOUT: seconds a program may take (300). TEST_JOBS: how many at a time (2). TEST_WRAP: a command in front of each
# (valgrind). TEST_TOTALS: a file to append the last line's numbers to. TEST_FAILED: one to append what failed to.
set -u
timeout_s=${TEST_TIMEOUT:-300}
jobs=${TEST_JOBS:-2}
dir=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-run-XXXXXX")
trap 'rm -rf "$dir"' EXIT

# One program; its log and its counts go to files, so that what is printed does not mix.
run_one() {
	local program=$1 id=$2 name begin status line p f s
	name=$(basename "$program")
	begin=$EPOCHREALTIME
	# shellcheck disable=SC2086 # the wrapper is several words
	timeout -k 10 "$timeout_s" ${TEST_WRAP:-} "$program" >"$dir/$id.log" 2>&1 </dev/null
	status=$?
	line=$(grep -aE ': [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$dir/$id.log" | tail -1)
	p=0 f=0 s=0
	if [[ $line =~ ([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
	fi
	if [ "$f" -eq 0 ] && { [ "$status" -ne 0 ] || [ -z "$line" ]; }; then
		f=1
		[ "$status" -eq 124 ] && echo "took more than $timeout_s s" >>"$dir/$id.log"
		echo "ended with status $status and $([ -n "$line" ] && echo "no failure reported" || echo "no summary")" >>"$dir/$id.log"
	fi
	echo "$p $f $s" >"$dir/$id.counts"
	{
		printf '  %-34s %5d passed %3d failed %3d skipped  %6.1f s\n' "$name" "$p" "$f" "$s" \
			"$(echo "$EPOCHREALTIME $begin" | awk '{print $1 - $2}')"
		if [ "$f" -gt 0 ]; then tail -n 60 "$dir/$id.log" | sed 's/^/    | /'; fi
	} >"$dir/$id.out"
	cat "$dir/$id.out"
	if [ "$f" -gt 0 ] && [ -n "${TEST_FAILED:-}" ]; then cat "$dir/$id.out" >>"$TEST_FAILED"; fi
}

id=0
for program in "$@"; do
	while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
	id=$((id + 1))
	run_one "$program" "$id" &
done
wait

totals=$(cat "$dir"/*.counts 2>/dev/null | awk '{p += $1; f += $2; s += $3} END {print p + 0, f + 0, s + 0}')
read -r p f s <<<"$totals"
[ -z "${TEST_TOTALS:-}" ] || echo "$totals" >>"$TEST_TOTALS"
echo "$p passed, $f failed, $s skipped"
[ "$f" -eq 0 ]
