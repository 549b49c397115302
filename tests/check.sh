#!/bin/bash
# check.sh: everything `make check` runs, stage by stage. MAKE and CC come from the Makefile. Building without a warning
# under each compiler, the layer check and the shell scripts' check count as one test each. What failed is said again at the
# end, where people look; the last line is `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.." || exit 1
make=${MAKE:-make}
unset MAKEFLAGS MFLAGS MAKELEVEL
jobs=$(nproc)
totals=$(mktemp "${TMPDIR:-/tmp}/lockstep-check-XXXXXX")
failed=$(mktemp "${TMPDIR:-/tmp}/lockstep-failed-XXXXXX")
trap 'rm -f "$totals" "$failed"' EXIT
export TEST_TOTALS=$totals TEST_FAILED=$failed TEST_JOBS=$jobs
began=$SECONDS

stage() {
	echo
	echo "== $* ($((SECONDS - began)) s)"
}

# One command as one test.
one() {
	local what=$1 log
	shift
	log=$(mktemp)
	if "$@" >"$log" 2>&1; then
		echo "  $what: fine"
		echo "1 0 0" >>"$totals"
	else
		{
			echo "  $what: FAILED"
			grep -vE '^  (CC|LINK) ' "$log" | tail -n 60 | sed 's/^/    | /'
		} | tee -a "$failed"
		echo "0 1 0" >>"$totals"
	fi
	rm -f "$log"
}

build() {
	"$make" --no-print-directory -k -j"$jobs" "$@"
}

# The programs of a kind in a build: programs DIR KIND.
programs() {
	local kind=$2 t
	[ "$kind" = fuzz ] && [ ! -e tests/fuzz/main.c ] && return
	for t in tests/"$kind"/*.c; do
		[ -e "$t" ] || continue
		t=$(basename "$t" .c)
		[ "$kind" = fuzz ] && [ "$t" = main ] && continue
		[[ $kind = cuda_* && ($t != cuda_* || $(uname -m) != x86_64) ]] && continue
		if [ "$kind" = unit ]; then echo "$1/tests/$t"; else echo "$1/tests/$kind/$t"; fi
	done
}

run() {
	[ $# -eq 0 ] || tests/run.sh "$@"
}

# In braces, so that the script may be edited while it runs.
{
stage "build: ${CC:-gcc}, and clang for its warnings"
one "builds without a warning" build tests
one "builds with clang without a warning" build CC=clang CFLAGS=-O0 all
one "layers" "$make" --no-print-directory check-layers
mapfile -t scripts < <(find tools tests .ci -name '*.sh' -o -path .ci/run)
one "shell scripts" shellcheck "${scripts[@]}"

stage "unit, golden and property tests"
mapfile -t list < <(programs build unit; programs build golden; programs build prop)
LOCKSTEP_PROP_SECONDS=8 run "${list[@]}" # each by itself goes on for longer

stage "the CUDA kernels on a stand-in for a GPU"
mapfile -t list < <(programs build cuda_host; programs build cuda_set)
LOCKSTEP_TEST_SHORT=1 run "${list[@]}" tests/cuda_host/ptxas.sh # the whole tables: make cuda-host

stage "every allocation failed once"
mapfile -t list < <(programs build failmem)
run "${list[@]}"

stage "the program, as a user types it"
LOCKSTEP=$PWD/build/lockstep run tests/e2e/*.sh

stage "the report in a browser"
LOCKSTEP=$PWD/build/lockstep run tests/browser/*.sh

stage "address and undefined-behaviour sanitizers, invariants after every step"
san=build/variant-debug-address-undefined
one "builds with ASan and UBSan" build DEBUG=1 SAN=address,undefined CFLAGS='-O1 -g1' tests
mapfile -t list < <(programs $san unit; programs $san golden; programs $san prop; programs $san failmem; programs $san cuda_host; programs $san cuda_set)
export LOCKSTEP_TEST_SHORT=1 LOCKSTEP_PROP_SECONDS=6 ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
run "${list[@]}"
LOCKSTEP=$PWD/$san/lockstep run tests/e2e/e2e_{capacity,generate,help,run,trace}.sh

stage "readers under random input, sanitized"
mapfile -t list < <(programs $san fuzz)
run "${list[@]}"

stage "thread sanitizer"
# Threads are the kernels' and those of whoever runs them.
mapfile -t list < <(programs build/variant-thread unit | grep -E '/(kernels_|exec_(backend|profiler|runner|weights))')
one "builds with TSan" build SAN=thread CFLAGS='-O1 -g1' "${list[@]}"
run "${list[@]}"

stage "valgrind"
mapfile -t list < <(for t in policies_hand sim_cluster traces_shape traces_writer analysis_run analysis_metrics cli_arms failmem/traces; do
	[ -x "build/tests/$t" ] && echo "build/tests/$t"
done)
TEST_WRAP="valgrind -q --error-exitcode=9 --leak-check=full" run "${list[@]}"

if [ -s "$failed" ]; then
	echo
	echo "What failed:"
	tail -n 200 "$failed"
fi
echo
echo "took $((SECONDS - began)) s"
awk '{p += $1; f += $2; s += $3} END {
	printf "%d passed, %d failed, %d skipped\n", p, f, s
	exit f > 0
}' "$totals"
exit
}
