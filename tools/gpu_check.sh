#!/bin/bash
# gpu_check.sh BUILD: everything that needs an NVIDIA GPU, in under ten minutes: operations against the reference, the
# sanitizers of CUDA where they are installed, tokens against the CPU's, profile, validation of every policy, decisions under
# replay, speed beside what the device can do. Writes BUILD/gpu-check.json and BUILD/gpu-check.md. Without a GPU it says so,
# and that is no failure: all of it has been compiled by then.
# GPU_CHECK_MODEL, GPU_CHECK_TRACE: what is profiled, validated and timed, and on what. GPU_CHECK_SMALL: the model that tokens and
# decisions are compared with. GPU_CHECK_SHRINK=N: a rehearsal, all shapes and numbers divided by N (tests/e2e/e2e_gpu_check.sh runs
# every stage of this script so, on a stand-in for a GPU).
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
lockstep=$build/lockstep
model=${GPU_CHECK_MODEL:-llama-3.1-8b}
small=${GPU_CHECK_SMALL:-llama-110m}
trace=${GPU_CHECK_TRACE:-traces/samples/azure_conv_sample.csv}
shrink=${GPU_CHECK_SHRINK:-1}
limits=()
[ "$shrink" -eq 1 ] || limits=(--max-num-seqs 4 --max-num-batched-tokens 64 --num-gpu-blocks-override 64)
began=$SECONDS
tmp=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-gpu-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
db=$tmp/gpu.db
rows=$tmp/rows.jsonl
failed=0

if ! [ -e "$build/lockstep-cuda.so" ]; then
	echo "gpu-check: SKIPPED: there is no nvcc here (on PATH or in CUDA_HOME), so no CUDA kernels were compiled and none can be checked"
	exit 0
fi
# What opening says is the reason, whatever it is.
why=$("$lockstep" generate --backend cuda --model "$small" --prompt-ids 1 --max-tokens 1 -q 2>&1 >/dev/null)
if grep -qE 'has no NVIDIA driver|finds no device' <<<"$why"; then
	echo "gpu-check: the CUDA kernels, the plug-in and the programs that check them are compiled"
	echo "gpu-check: SKIPPED: nothing was run, since there is no GPU: ${why#*cannot be used: }"
	exit 0
fi

# A check: its name, what it found in words, pass or fail.
row() {
	jq -cn --arg name "$1" --arg result "$2" --arg found "$3" --argjson s "$((SECONDS - began))" \
		'{name: $name, result: $result, found: $found, at_s: $s}' >>"$rows"
	printf '  %-44s %-5s %s\n' "$1" "$2" "$3"
	[ "$2" != FAIL ] || failed=$((failed + 1))
}

# of N: that, or what is left of it in a rehearsal; at least 4.
of() {
	echo $(($1 / shrink > 4 ? $1 / shrink : 4))
}

# check NAME COMMAND...: passes when the command succeeds; its last line is what was found.
check() {
	local name=$1
	shift
	if "$@" >"$tmp/out" 2>"$tmp/err"; then
		row "$name" pass "$(tail -n 1 "$tmp/out" | cut -c 1-160)"
	else
		row "$name" FAIL "$(cat "$tmp/err" "$tmp/out" | grep -v '^$' | tail -n 1 | cut -c 1-300)"
	fi
}

# --- operations ------------------------------------------------------------------------------------------------------
check "operations against the reference" "$build/tests/gpu_ops" "$shrink"
sanitizer=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null)
for tool in memcheck racecheck initcheck; do
	if [ -n "$sanitizer" ]; then
		check "compute-sanitizer: $tool" timeout 90 "$sanitizer" --tool "$tool" --error-exitcode 9 "$build/tests/gpu_ops" $((shrink > 16 ? shrink : 16))
	else
		row "compute-sanitizer: $tool" skip "compute-sanitizer is not installed"
	fi
done

# --- tokens -----------------------------------------------------------------------------------------------------------
# same_tokens MODEL DTYPE PROMPTS TOKENS PERCENT: of the tokens that the CPU says after a few made-up prompts, how many the GPU
# says too before the first that differs. (Random weights: two roundings of one text part at the first near tie, about one
# token in ten; a bug parts at once.)
same_tokens() {
	local same=0 n i
	for ((i = 1; i <= $3; i++)); do
		for backend in cpu cuda; do
			"$lockstep" generate --backend $backend --model "$1" --weights random:3 --weight-dtype "$2" \
				--prompt-ids "1,$((i * 97)),$((i * i + 5)),9,$((i + 200))" --max-tokens "$4" --ignore-eos --json -q \
				>"$tmp/$backend.json" || return 1
		done
		n=$(jq -n --slurpfile a "$tmp/cpu.json" --slurpfile b "$tmp/cuda.json" \
			'[$a[0].tokens, $b[0].tokens] | transpose | map(.[0] == .[1]) | (index(false) // length)')
		same=$((same + n))
	done
	echo "$same of $(($3 * $4)) tokens"
	[ $((same * 100)) -ge $(($3 * $4 * $5)) ]
}
check "tokens, f32: the CPU's" same_tokens "$small" fp32 2 "$(of 48)" 100
check "tokens, bf16: 60 % the CPU's" same_tokens "$small" bf16 "$(of 10)" 4 60

# --- replay, decisions ------------------------------------------------------------------------------------------------
decisions() { # MORE...: runs, plays the record back: session_replay fails when a decision differs
	rm -f "$db"
	"$lockstep" replay --backend cuda --model "$small" --weights random:1 --dataset-path "$trace" --num-prompts "$(of 40)" \
		--policy vllm_v1 --db "$db" "${limits[@]}" "$@" >"$tmp/run.txt" || return 1
	"$lockstep" replay --backend replay --run latest --db "$db" >"$tmp/again.txt" || return 1
	grep -m 1 -iE 'tokens/s|throughput' "$tmp/run.txt" || echo "played back alike"
}
check "decisions under replay" decisions
check "decisions under replay, asynchronous" decisions --async-scheduling
check "decisions under replay, every read verified" decisions --check
check "decisions under replay, no graphs" decisions --enforce-eager

# What the specifications call this GPU; GPU_CHECK_DEVICE where they have no name for it (a JSON file).
name=$("$build/tests/gpu_ops" name)
case $name in
*H200*) device=h200 ;;
*H100*PCIe*) device=h100-pcie ;;
*H100*) device=h100-sxm ;;
*A100*40GB*) device=a100-40g ;;
*A100*) device=a100-80g ;;
*B200*) device=b200 ;;
*L40S*) device=l40s ;;
*A10G*) device=a10g ;;
*) device=l4 ;;
esac
device=${GPU_CHECK_DEVICE:-$device}

# --- profile, validation ----------------------------------------------------------------------------------------------
profile() {
	"$lockstep" profile --backend cuda --model "$model" --max-tokens "$(of 4096)" --max-context "$(of 4096)" --max-num-seqs "$(of 256)" \
		--budget "$(of 45)" --db "$db" --name gpu --device "$device" --json -q \
		>"$build/gpu-profile.json" || return 1
	echo "$(jq '.points | length' "$build/gpu-profile.json") points"
}
check "profile of $model" profile
validate() {
	"$lockstep" validate --backend cuda --model "$model" --device "$device" --weights random:1 --dataset-path "$trace" --num-prompts "$(of 60)" "${limits[@]}" \
		--policies "$("$lockstep" policies --json | jq -r "[.policies[].name] | join(\",\")")" \
		--cost-model profiled:gpu --db "$db" --report "$build/gpu-validation.md" --json >"$build/gpu-validation.json" || return 1
	echo "report in $build/gpu-validation.md"
}
check "validation of every policy" validate

# --- speed ------------------------------------------------------------------------------------------------------------
speed=null
if "$build/tests/gpu_speed" "$model" "$shrink" >"$tmp/speed.json" 2>"$tmp/err"; then
	speed=$(cat "$tmp/speed.json")
	row "speed" pass "$(jq -r '[.figures[] | select(.reached != null)] | "\(map(select(.reached)) | length) of \(length) targets reached"' "$tmp/speed.json")"
else
	row "speed" FAIL "$(tail -n 1 "$tmp/err")"
fi

# --- what came of it --------------------------------------------------------------------------------------------------
jq -n --slurpfile checks "$rows" --argjson speed "$speed" --arg version "$("$lockstep" --version | paste -sd' ')" \
	--argjson took "$((SECONDS - began))" --arg date "$(date -u +%F)" \
	'{date: $date, version: $version, took_s: $took, checks: $checks, speed: $speed}' >"$build/gpu-check.json"
{
	echo "# GPU check"
	echo
	jq -r '"\(.date), \(.version), \(.took_s) s. Device: \(.speed.device // "see below")."' "$build/gpu-check.json"
	[ "$shrink" -eq 1 ] || printf '\nA rehearsal: shapes and numbers are divided by %d. No figure of it says anything about a GPU.\n' "$shrink"
	printf '\n| check | result | found |\n| --- | --- | --- |\n'
	jq -r '.checks[] | "| \(.name) | \(.result) | \(.found | gsub("\\|"; "/")) |"' "$build/gpu-check.json"
	printf '\nSpeed, each beside the ceiling measured in the same run (copy of 1 GiB, product of 8192^3 in bf16):\n\n'
	echo "| figure | value | of the ceiling | target | reached |"
	echo "| --- | ---: | ---: | ---: | --- |"
	jq -r '(.speed.figures // [])[] | "| \(.name) | \(.value) \(.unit) | \(if .of_ceiling then "\(.of_ceiling * 1000 | round / 10) %" else "" end) | \(if .target then "\(.target * 100) %" elif .at_most then "at most \(.at_most) \(.unit)" else "" end) | \(if .reached == null then "" elif .reached then "yes" else "no" end) |"' \
		"$build/gpu-check.json"
} >"$build/gpu-check.md"
echo "gpu-check: $((SECONDS - began)) s, $failed failed; $build/gpu-check.json and $build/gpu-check.md"
[ "$failed" -eq 0 ]
