#!/bin/bash
# ptxas.sh: no kernel takes more registers, spills more or takes more shared memory than tests/cuda_host/ptxas.tsv says (made
# by `make cuda-table`). Skipped where the kernels were not compiled, or by another release of nvcc than the table.
set -u
cd "$(dirname "$0")/../.." || exit 1
table=tests/cuda_host/ptxas.tsv
nvcc=${CUDA_HOME:+$CUDA_HOME/bin/nvcc}
[ -x "${nvcc:-}" ] || nvcc=$(command -v nvcc)
now=$(mktemp)
trap 'rm -f "$now"' EXIT
if [ -z "$nvcc" ] || ! ls build/cuda/kernels/cuda/*.ptxas >/dev/null 2>&1; then
	echo "the CUDA kernels were not compiled"
	echo "ptxas: 0 passed, 0 failed, 1 skipped"
	exit 0
fi
tools/ptxas_table.sh "$nvcc" build/cuda/kernels/cuda/*.ptxas >"$now"
if [ "$(head -n 1 "$now")" != "$(head -n 1 $table)" ]; then
	echo "the table is of $(head -n 1 $table), here is $(head -n 1 "$now")"
	echo "ptxas: 0 passed, 0 failed, 1 skipped"
	exit 0
fi
awk -F '\t' '
	FNR <= 2 { next }
	NR == FNR { registers[$1, $2] = $3; spilled[$1, $2] = $4; shared[$1, $2] = $5; next }
	!(($1, $2) in registers) { print "not in the table: " $1 " for " $2; failed++; next }
	$3 > registers[$1, $2] || $4 > spilled[$1, $2] || $5 > shared[$1, $2] {
		printf "%s for %s: %d registers, %d bytes spilled, %d shared; the table says %d, %d, %d\n", $1, $2, $3, $4, $5,
			registers[$1, $2], spilled[$1, $2], shared[$1, $2]
		failed++
		next
	}
	{ passed++ }
	END {
		printf "ptxas: %d passed, %d failed, 0 skipped\n", passed, failed
		exit failed > 0 || passed == 0
	}' $table "$now"
