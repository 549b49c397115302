# shellcheck shell=bash
# e2e.sh: what the scripts of tests/e2e share. A script sources it, runs the program with `run` and says what it expects
# with `expect`; `finish` prints the line that tests/run.sh adds up.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
LOCKSTEP=${LOCKSTEP:-build/lockstep}
# shellcheck disable=SC2034 # for those who source this
shared=${LOCKSTEP_SHARED:-../shared/data}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-e2e-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
export TMPDIR=$tmp
# A copy, so that building meanwhile does not disturb.
cp "$LOCKSTEP" "$tmp/lockstep.copy" || exit 1
cp "$(dirname "$LOCKSTEP")/lockstep-spm.so" "$tmp" 2>/dev/null
cp "$(dirname "$LOCKSTEP")/lockstep-cuda.so" "$tmp" 2>/dev/null
cp "$(dirname "$LOCKSTEP")/lockstep-mpi.so" "$tmp" 2>/dev/null
LOCKSTEP=$tmp/lockstep.copy
passed=0 failed=0 skipped=0

# Runs lockstep: $out, $err, $status.
run() {
	out=$("$LOCKSTEP" "$@" 2>"$tmp/stderr" </dev/null)
	status=$?
	err=$(cat "$tmp/stderr")
}

# expect WHAT COMMAND...: one test; it passes when the command succeeds.
expect() {
	local what=$1
	shift
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "  FAILED $what: $(cut -c 1-200 <<<"$*" | head -3)"
		echo "    status ${status:-}; stderr: $(echo "${err:-}" | head -5)"
		echo "    stdout: $(echo "${out:-}" | head -5 | cut -c 1-300)"
	fi
}

skip() {
	skipped=$((skipped + 1))
	echo "  skipped: $*"
}

same() { [ "$1" = "$2" ]; }
has() { [[ $1 == *"$2"* ]]; }
lines() { [ "$(printf '%s' "$1" | grep -c '')" -eq "$2" ]; }
# The JSON text $1 makes the jq filter $2 true.
holds() { jq -e "$2" >/dev/null 2>&1 <<<"$1"; }

file_holds() { jq -e "$2" "$1" >/dev/null; }

# A bad command line or input: exit status 2, one line on stderr that holds the given text, nothing on stdout.
refused() {
	local text=$1
	shift
	run "$@"
	[ "$status" -eq 2 ] && [ -z "$out" ] && lines "$err" 1 && has "$err" "$text"
}

finish() {
	echo "$(basename "$0" .sh): $passed passed, $failed failed, $skipped skipped"
	[ "$failed" -eq 0 ]
	exit
}
