# shellcheck shell=bash disable=SC2034,SC2154 # variables of those who source this
# common.sh: what the studies share. Every run's figures are kept in a file named by all that decides them (program,
# trace, options), so that a study which was interrupted goes on where it was.
set -euo pipefail
export LC_ALL=C
here=$(dirname "${BASH_SOURCE[0]}")
shared=${LOCKSTEP_SHARED:-../shared/data}
short=${STUDY_SHORT:-}
work=${STUDY_WORK:-build/studies}
seeds=${STUDY_SEEDS:-10}
[ -z "$short" ] || seeds=${STUDY_SEEDS:-1}
cpu_seeds=${STUDY_CPU_SEEDS:-$seeds} # of what takes real time
mkdir -p "$work/runs" "$work/traces" "$pages"
program=$(sha256sum "$lockstep" | cut -c 1-16)

figures=(duration request_throughput output_throughput mean_makespan_ms mean_ttft_ms p99_ttft_ms mean_itl_ms mean_tpot_ms
	mean_e2el_ms prefix_hit_ratio preemptions recomputed_tokens max_running max_blocks_used kv_used kv_internal_waste
	kv_reserved_waste kv_external_waste evicted_blocks prompt_tokens_computed completed failed busy_share mean_step_ms
	users kv_share kv_per_user_mb load)

# At most so long; the short study is for looking whether all of it works.
smaller() { if [ -n "$short" ]; then echo "$2"; else echo "$1"; fi; }

say() { echo "study: $*" >&2; }

# One run: run ROWS ARM SEED TRACE OPTIONS... What it printed is kept; gather ROWS makes the rows of all that ROWS is to have.
run() {
	local rows=$1 arm=$2 seed=$3 trace=$4 key kept load
	shift 4
	key=$({
		echo "$program" "$seed" "$@"
		cat "$trace"
	} | sha256sum)
	kept=$work/runs/${key%% *}
	if [ ! -s "$kept" ]; then
		# With the load average it began under, for what is measured.
		read -r load _ </proc/loadavg
		if ! "$lockstep" replay "$trace" "$@" --seed "$seed" --no-db --json >"$kept.$$"; then
			say "failed: lockstep replay $trace $* --seed $seed"
			return 1
		fi
		sed "1s/^{/{\"load\":$load,/" "$kept.$$" >"$kept.$$.whole"
		rm "$kept.$$"
		mv "$kept.$$.whole" "$kept"
	fi
	printf '%s\t%s\t%s\n' "$arm" "$seed" "$kept" >>"$rows.list"
}

begin() { : >"$1.list"; }

gather() {
	local rows files
	for rows in "$@"; do
		mapfile -t files < <(cut -f 3 "$rows.list")
		{
			printf 'arm\tseed'
			printf '\t%s' "${figures[@]}"
			echo
			# Little's law gives the users that are served at once on average; KV memory that is allocated, over them.
			paste <(cut -f 1,2 "$rows.list") <(jq -r --args 'if .failed + .unfinished > 0 then error("not all requests were served") else . end
				| .users = (if .duration > 0 then (.sums_ns.prefill + .sums_ns.decode) / 1e9 / .duration else null end)
				| .kv_share = (if .kv_used == null then null else .kv_used + .kv_internal_waste + .kv_reserved_waste end)
				| .kv_per_user_mb = (if .kv_share == null or .users == 0 then null else .kv_share * .kv_bytes_per_token
					* .settings.num_gpu_blocks * .settings.block_size / .users / 1e6 end)
				| . as $all | [$ARGS.positional[] | $all[.]] | @tsv' "${figures[@]}" < <(cat "${files[@]}"))
		} >"$rows"
		if [ "$(grep -c '' "$rows")" -ne $((${#files[@]} + 1)) ]; then
			say "$rows: not all requests were served in some run"
			return 1
		fi
	done
}

commas() { sed -E ':a; s/([0-9])([0-9]{3})(,|$)/\1,\2\3/; ta' <<<"$1"; }

# table ROWS BASE ARMS COLUMNS;  pairs ROWS KEY WHOLE PAIRS [TITLE] [more];  ratio ROWS KEY FROM>TO [more];
# bars ROWS KEY BASE ARMS TITLE [more];  mean ROWS KEY ARM
# ARMS: "arm=what it is called|..."; COLUMNS: "key kind=heading|..."; "more" where a larger figure is the better one.
table() { awk -f "$here/stats.awk" -v mode=table -v base="$2" -v arms="$3" -v cols="$4" "$1"; }
pairs() {
	awk -f "$here/stats.awk" -v mode=pairs -v key="$2" -v whole="$3" -v pairs="$4" -v title="${5:-}" -v more="${6:+1}" "$1"
}
ratio() { awk -f "$here/stats.awk" -v mode=say -v key="$2" -v pair="$3" -v more="${4:+1}" "$1"; }
bars() { awk -f "$here/stats.awk" -v mode=bars -v key="$2" -v base="$3" -v arms="$4" -v title="$5" -v more="${6:+1}" "$1"; }
percent() { awk -f "$here/stats.awk" -v mode=percent -v key="$2" -v arm="$3" "$1"; }
mean() { awk -f "$here/stats.awk" -v mode=mean -v key="$2" -v arm="$3" "$1"; }

# Lines in another order for every seed, so that what slows this machine down meanwhile falls on each arm alike.
turned() { awk -v k="$1" '{line[NR] = $0} END {for (i = 0; i < NR; i++) print line[(i + k) % NR + 1]}'; }

# Lengths of ShareGPT: measured ones where they are at hand, else the bundled sample's. Left out is what `vllm bench serve`
# leaves out: prompts above 1,024 tokens, both above 2,048, either below 4 (of the sample, its reader does so).
sharegpt=$shared/traces/sharegpt_lengths_llama2.csv
sharegpt_lengths=$work/traces/sharegpt_lengths.csv
if [ -r "$sharegpt" ]; then
	awk -F, 'NR == 1 || ($1 >= 4 && $2 >= 4 && $1 <= 1024 && $1 + $2 <= 2048)' "$sharegpt" >"$sharegpt_lengths"
else
	sharegpt=traces/samples/sharegpt_sample.json
	sharegpt_lengths=$sharegpt
fi

# made NAME SEED OPTIONS...: a generated trace, which is the same for the same seed. Prints its path.
made() {
	local path=$work/traces/$1-$2.jsonl
	"$lockstep" trace generate "${@:3}" --seed "$2" --to lockstep --quiet "$path" >&2
	echo "$path"
}
made_agents() {
	local path=$work/traces/$1-$2.jsonl
	"$lockstep" trace generate agentic "${@:3}" --seed "$2" --quiet -o "$path" >&2
	echo "$path"
}

# The inputs: files by their SHA-256, and what the first seed makes of them.
inputs() {
	local f
	echo "| input | |"
	echo "| --- | --- |"
	for f in "$@"; do
		[ -r "$f" ] || continue
		case $f in
		"$work"/*) echo "| $(basename "$f" .jsonl), seed $(sed 's/.*-//; s/\..*//' <<<"$f") | $("$lockstep" trace info --json "$f" |
			jq -r '"\(.requests) requests, \(.total_input_tokens) prompt and \(.total_output_tokens) output tokens, workload hash \(.workload_hash)"') |" ;;
		*) echo "| $f | SHA-256 $(sha256sum "$f" | cut -c 1-16)… |" ;;
		esac
	done
}

machine() {
	awk -F ': ' '/^model name/ {print $2; exit}' /proc/cpuinfo
}
