#!/bin/bash
# ptxas_table.sh NVCC FILE...: what ptxas -v said of each kernel (the .ptxas files beside the CUDA objects): kernel,
# architecture, registers, bytes spilled (stores and loads), bytes of static shared memory; tab-separated and sorted, after
# a line that names the compiler.
set -eu
export LC_ALL=C
nvcc=$1
shift
echo "# nvcc $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
printf 'kernel\tarch\tregisters\tspilled\tshared\n'
cat "$@" | awk '
	/Compiling entry function/ { split($0, q, "\047"); name = q[2]; arch = q[4] }
	/bytes spill stores/ { spilled = $5 + $9 }
	/Used [0-9]+ registers/ {
		shared = 0
		for (i = 1; i <= NF; i++) {
			if ($i == "Used") registers = $(i + 1)
			if ($i ~ /^smem/) shared = $(i - 2)
		}
		print name "\t" arch "\t" registers "\t" spilled "\t" shared
	}' | c++filt -p | sed 's/(num)0/f32/g; s/(num)1/bf16/g; s/(num)2/f16/g; s/(num)3/int8/g; s/(num)4/fp8/g; s/^void //' | sort -u
