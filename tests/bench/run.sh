#!/bin/bash
# run.sh BUILD: every figure `make bench` reports, as a table on stdout and appended to BUILD/bench.tsv (date, version,
# figure, value, unit, wanted). Production traces are used where they are at hand, else made ones of the same size.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$1
lockstep=${LOCKSTEP:-$build/lockstep}
bench=$build/tests/bench
shared=${LOCKSTEP_SHARED:-../shared/data}
tmp=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-bench-XXXXXX")
trap 'rm -rf "$tmp"' EXIT
tsv=$build/bench.tsv
stamp=$(date -u +%Y-%m-%dT%H:%M:%SZ)
version=$(git describe --always --dirty 2>/dev/null || "$lockstep" --version)
short=

# row FIGURE VALUE UNIT [WANTED], where WANTED is ">=N" or "<=N".
row() {
	local verdict=
	if [ -n "${4:-}" ]; then
		verdict=$(awk -v v="$2" -v w="$4" 'BEGIN {n = substr(w, 3) + 0; print ((w ~ /^>/) ? v >= n : v <= n) ? "ok" : "SHORT"}')
		[ "$verdict" = ok ] || short="$short $1"
	fi
	printf '%-46s %14s %-8s %12s %s\n' "$1" "$2" "$3" "${4:-}" "$verdict"
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$stamp" "$version" "$1" "$2" "$3" "${4:-}" >>"$tsv"
}

# value KEY: of "key value" lines on stdin.
value() { awk -v k="$1" '$1 == k {print $2}'; }
ratio() { awk -v a="$1" -v b="$2" -v d="${3:-2}" 'BEGIN {printf "%.*f", d, a / b}'; }
median() { sort -n | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }
generate() {
	"$lockstep" trace generate --num-prompts "$1" --request-rate 5.5 --input-len 'lognormal:900,0.9,max=14000' \
		--output-len 'lognormal:150,0.8,max=1000' --quiet "$2"
}

trace=$shared/traces/AzureLLMInferenceTrace_conv.csv
if [ ! -r "$trace" ]; then
	trace=$tmp/stand_in.jsonl
	generate 19366 "$trace" || exit 1
	echo "(the Azure 2023 conversation trace is not here: a made one of its size stands in)"
fi

out=$("$bench/bench_run" loop "$trace" 9) || exit 1
requests=$(value requests_per_s <<<"$out")
row "step loop, requests recorded in memory" "$requests" "req/s" ">=700000"
row "the same, best of 9 (other programs disturb)" "$(value best_requests_per_s <<<"$out")" "req/s"
row "step loop" "$(value steps_per_s <<<"$out")" "steps/s"
row "one step" "$(value ns_per_step <<<"$out")" "ns"
row "loop and metrics" "$(value requests_per_s_with_metrics <<<"$out")" "req/s"

for kind in "hash lru" "hash lfu" "hash fifo" "radix lru" "radix leaf-lru" "radix lfu" "radix fifo" "radix cost-aware"; do
	for blocks in 1000000 10000000; do
		# shellcheck disable=SC2086 # two words
		out=$("$bench/bench_prefix" "$blocks" $kind) || exit 1
		row "prefix cache $kind, $blocks blocks: lookup" "$(value lookup_ns <<<"$out")" "ns/block" \
			"<=$([ "$blocks" = 1000000 ] && echo 50 || echo 100)"
		row "the same: filled, freed, evicted" "$(value turnover_ns <<<"$out")" "ns/block"
		row "the same: its books" "$(value bytes_per_block <<<"$out")" "bytes" "<=48"
	done
done
row "peak memory" "$(value peak_mb <<<"$out")" "MB"
out=$("$bench/bench_run" store "$trace" "$tmp/a.db" 5) || exit 1
row "run, every request stored in SQLite" "$(value requests_per_s_stored <<<"$out")" "req/s" ">=200000"

whole=$(for _ in 1 2 3 4 5 6 7; do
	begin=$EPOCHREALTIME
	"$lockstep" replay --model llama-3.1-8b --device h100-sxm --dataset-path "$trace" --no-db >/dev/null || exit 1
	echo "$EPOCHREALTIME $begin" | awk '{print $1 - $2}'
done | median)
row "lockstep replay, reading and printing included" "$(ratio 19366 "$whole" 0)" "req/s" ">=300000"

mooncake=$shared/traces/mooncake_conversation.jsonl
if [ -r "$mooncake" ]; then
	whole=$(for _ in 1 2 3 4 5 6 7; do
		begin=$EPOCHREALTIME
		"$lockstep" replay --model llama-3.1-8b --device h100-sxm --dataset-path "$mooncake" --prefix-cache hash \
			--no-db >/dev/null || exit 1
		echo "$EPOCHREALTIME $begin" | awk '{print $1 - $2}'
	done | median)
	row "lockstep replay of Mooncake's conversations, hash prefix cache" "$(ratio 12031 "$whole" 0)" "req/s" ">=50000"
fi

# Ten rates of one configuration, the trace read and all at once tried as well; on one core.
search() {
	begin=$EPOCHREALTIME
	taskset -c 0 "$lockstep" slo --model llama-3.1-8b --device h100-sxm --dataset-path "$trace" --goodput ttft:500 tpot:20 \
		--attainment 0.95 --max-points 10 --precision 0.0001 --no-db --quiet --json >"$tmp/slo.json" || exit 1
	echo "$EPOCHREALTIME $begin" | awk '{print $1 - $2}'
}
row "one search for objectives, 10 rates" "$(for _ in 1 2 3 4 5; do search; done | median)" "s" "<=1"
row "the same: rates tried" "$(grep -o '"passes"' "$tmp/slo.json" | wc -l)" "" ">=10"

# A thousand points of a sweep, by one worker and by two.
cat >"$tmp/thousand.json" <<END
{"name": "thousand", "base": {"dataset-name": "random", "num-prompts": 3000, "random-input-len": 600, "random-output-len": 120,
 "request-rate": 6, "model": "llama-3.1-8b", "device": "h100-sxm"},
 "grid": {"max-num-batched-tokens": [512, 1024, 2048, 4096, 8192], "max-num-seqs": [16, 32, 64, 128, 256],
  "policy": ["chunked", "continuous", "vllm_v0", "sarathi"]}, "seeds": 10}
END
sweep() {
	rm -f "$tmp/sweep.db"*
	begin=$EPOCHREALTIME
	"$lockstep" sweep "$tmp/thousand.json" --db "$tmp/sweep.db" -j "$1" --quiet >/dev/null || exit 1
	echo "$EPOCHREALTIME $begin" | awk '{print $1 - $2}'
}
one=$(sweep 1)
row "a sweep of 1,000 points, one worker" "$one" "s"
if [ "$(nproc)" -ge 2 ]; then
	two=$(sweep 2)
	row "the same, two workers" "$two" "s"
	row "one worker against two" "$(ratio "$one" "$two")" "x" ">=1.8"
fi

small=$("$bench/bench_run" batch 16 | value ns_per_step)
large=$("$bench/bench_run" batch 256 | value ns_per_step)
row "a step of 16 decodes" "$small" "ns"
row "a step of 256 decodes" "$large" "ns"
row "256 decodes against 16" "$(ratio "$large" "$small")" "x" "<=1.5"

generate 1000000 "$tmp/million.jsonl" && head -250000 "$tmp/million.jsonl" >"$tmp/quarter.jsonl"
out=$("$bench/bench_run" once "$tmp/million.jsonl")
quarter=$("$bench/bench_run" once "$tmp/quarter.jsonl" | value loop_seconds)
row "a million requests" "$(value loop_seconds <<<"$out")" "s"
row "a million requests, peak memory" "$(value peak_mb <<<"$out")" "MB" "<=300"
row "time of a million against four quarters" "$(ratio "$(value loop_seconds <<<"$out")" "$(echo "$quarter" | awk '{print $1 * 4}')")" "x" "<=1.25"

# A page of a million requests, and of the same with all of its steps recorded.
for record in requests steps; do
	"$lockstep" replay --model llama-3.1-8b --device h100-sxm --dataset-path "$tmp/million.jsonl" --db "$tmp/million.db" --record $record --quiet >/dev/null
	begin=$EPOCHREALTIME
	if "$lockstep" report --db "$tmp/million.db" -o "$tmp/million.html" --quiet; then
		row "report of a million requests, $record recorded" "$(echo "$EPOCHREALTIME $begin" | awk '{printf "%.2f", $1 - $2}')" "s" "<=10"
		row "its page" "$(awk -v n="$(stat -c %s "$tmp/million.html")" 'BEGIN {printf "%.2f", n / 1e6}')" "MB" "<=15"
	fi
	rm -f "$tmp"/million.db*
done

# What a question to a cost model takes: "cost_step COST MODEL N ns, ...".
while read -r _ cost model ns _; do
	row "a step priced by $cost, $model" "$ns" "ns"
done < <("$bench/bench_cost" | grep '^cost_step')

# Other programs print finished rows: "figure<TAB>value<TAB>unit[<TAB>wanted]".
for program in "$bench"/bench_*; do
	case $(basename "$program") in bench_run | bench_cost | bench_prefix | *.*) continue ;; esac
	while IFS=$'\t' read -r figure number unit wanted; do
		[ -n "$unit" ] && row "$figure" "$number" "$unit" "$wanted"
	done < <("$program")
done

# The bare prototype of the loop, in the same minutes on the same machine.
prototype=${shared%/data}/lab/step_loop_limit.c
if [ -r "$prototype" ] && [ -r "$shared/traces/AzureLLMInferenceTrace_conv.csv" ]; then
	${CC:-gcc} -O2 -march=native -o "$tmp/limit" "$prototype" -lm 2>/dev/null &&
		bare=$(for _ in 1 2 3 4 5; do "$tmp/limit" "$trace" 19366 1; done | grep -oE '[0-9.]+ *(M|k)? *req[a-z]*/s' |
			awk '{n = $1; if ($0 ~ /M/) n *= 1e6; if ($0 ~ /k/) n *= 1e3; print n}' | median) &&
		row "bare prototype of the loop" "$bare" "req/s" &&
		row "prototype against us" "$(ratio "$bare" "$requests")" "x"
fi

echo
echo "appended to $tsv"
[ -z "$short" ] || echo "short of what was wanted:$short"
