#!/bin/bash
# run_fuzz.sh SECONDS PROGRAM...: runs each fuzz target so long. The seeds differ from run to run unless FUZZ_SEED is set;
# a target prints the seed and keeps the input that breaks it.
set -u
seconds=$1
shift
p=0 f=0
for program in "$@"; do
	echo "$(basename "$program"), $seconds s"
	if "$program" --seconds "$seconds" --seed "${FUZZ_SEED:-$RANDOM}"; then p=$((p + 1)); else f=$((f + 1)); fi
done
echo "fuzz: $p passed, $f failed, 0 skipped"
[ "$f" -eq 0 ]
