#!/bin/bash
# splitwise.sh LOCKSTEP PERF_MODEL.csv: docs/validation/splitwise.md on stdout. Every cell of Splitwise's table for llama2-70b is
# simulated as it was measured (a batch of equal prompts, no arrivals) and compared: with the devices as they come, and with
# kernels launched one by one, at the launch time that says the token times best.
set -eu
lockstep=$1
table=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The table goes beyond the 4,096 tokens that the model was made for.
jq '.max_position_embeddings = 16384' "$(dirname "$0")/../../specs/models/llama-2-70b.json" >"$dir/llama-2-70b.json"

# Means of the five repeats. Cells that the table's own server split for want of memory (64 prompts on two devices: their prompt
# time is that of a few) are left out.
awk -F, 'NR > 1 && $1 == "llama2-70b" && ($2 == "a100-80gb" || $2 == "h100-80gb") && !($4 == 64 && $11 == 2) {
	k = $2 " " $11 " " $3 " " $4 " " $5
	n[k]++; p[k] += $8; t[k] += $9
} END { for (k in n) print k, p[k] / n[k], t[k] / n[k] }' "$table" | sort -k1,1 -k2,2n -k3,3n -k4,4n -k5,5n >"$dir/cells"

# simulate COST: reads "hardware tp prompt batch tokens ..." and adds prompt and token time, ms.
simulate() {
	local hardware tp prompt batch tokens rest device
	while read -r hardware tp prompt batch tokens rest; do
		device=a100-80g
		[ "$hardware" = h100-80gb ] && device=h100-sxm
		printf '%s %s %s %s %s %s ' "$hardware" "$tp" "$prompt" "$batch" "$tokens" "$rest"
		"$lockstep" replay --policy continuous --model "$dir/llama-2-70b.json" --device $device --tensor-parallel-size "$tp" \
			--cost-model "$1" --dataset-name random --num-prompts "$batch" --random-input-len "$prompt" \
			--random-output-len "$tokens" --request-rate inf --max-num-seqs 64 --max-num-batched-tokens 65536 \
			--max-model-len 16384 --num-gpu-blocks-override 100000 --no-db --json </dev/null |
			jq -r '"\(.mean_ttft_ms) \(.mean_tpot_ms)"'
	done
}

# best DEVICE BATCHES FROM STEP TO COST: of the values FROM, FROM + STEP ... of COST (@ stands for it) the one with the least mean
# |ln| of the token times of 512-token prompts in these batches, on four and eight devices.
best() {
	local value
	for value in $(seq "$3" "$4" "$5"); do
		grep "^$1 [48] " "$dir/cells" | awk -v batches=" $2 " '$3 == 512 && $5 == 128 && index(batches, " " $4 " ")' |
			simulate "${6//@/$value}" |
			awk -v value="$value" '{ e = log($9 / $7); s += e < 0 ? -e : e } END { print s / NR, value }'
	done | sort -g | head -1 | cut -d' ' -f2
}

for device in a100-80gb h100-80gb; do
	launch=$(best $device 1 10 2 60 "roofline:eager=on,launch=@us")
	request=$(best $device "16 32 64" 0 25 500 "roofline:eager=on,launch=${launch}us,request=@us")
	echo "launch=${launch}us,request=${request}us" >"$dir/words.$device"
	grep "^$device " "$dir/cells" | simulate roofline >"$dir/as-is"
	grep "^$device " "$dir/cells" | simulate "roofline:eager=on,launch=${launch}us,request=${request}us" |
		cut -d' ' -f8,9 | paste -d' ' "$dir/as-is" - >>"$dir/all"
done

cat <<END
# Splitwise's table against the simulator

Made by \`tools/validation/splitwise.sh LOCKSTEP perf_model.csv\`. The table is that of Splitwise (Patel et al., 2024; MIT,
Mutinda/splitwise-sim): llama2-70b in fp16 on A100 and H100, 2, 4 and 8 devices, batches of equal prompts, means of five. It was
measured with an engine of 2023 that launched every kernel from Python and sampled request by request: four and eight H100 alike need 28
ms for a token, though reading the weights takes 13 and 7. Hence two predictions: the devices as they come, which stand for
engines that launch graphs; and \`--cost-model roofline:eager=on,...\` with the launch time that says single requests' token times best on
four and eight devices, and the time per request that then says those of batches of 16 and more: \`$(cat "$dir/words.a100-80gb")\` on A100,
\`$(cat "$dir/words.h100-80gb")\` on H100.

Percent errors, (predicted / measured - 1) x 100. Cells of 64 prompts on two devices are left out: that server had no memory for them
and split them.

END
awk '
function mean_row(  e) {
	if (n) printf "| **%s, TP %s** | | | | **%+.0f** (%.0f) | **%+.0f** (%.0f) | | **%+.0f** (%.0f) | **%+.0f** (%.0f) |\n", title, tp,
		s[1] / n, a[1] / n, s[2] / n, a[2] / n, s[3] / n, a[3] / n, s[4] / n, a[4] / n
	n = 0; for (e in s) s[e] = a[e] = 0
}
function err(i, x) { s[i] += x; a[i] += x < 0 ? -x : x; return x }
BEGIN {
	print "| device | prompt x batch | tokens | prompt ms | as it comes | launched | token ms | as it comes | launched |"
	print "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
}
{
	if ($1 " " $2 != last) { mean_row(); last = $1 " " $2 }
	title = $1 == "h100-80gb" ? "H100" : "A100"; tp = $2; n++
	printf "| %s, TP %s | %s x %s | %s | %.0f | %+.0f | %+.0f | %.1f | %+.0f | %+.0f |\n", title, tp, $3, $4, $5, $6,
		err(1, 100 * ($8 / $6 - 1)), err(2, 100 * ($10 / $6 - 1)), $7, err(3, 100 * ($9 / $7 - 1)), err(4, 100 * ($11 / $7 - 1))
}
END {
	mean_row()
	print "\nBold: mean error, and in brackets the mean of its absolute value."
}' "$dir/all"
