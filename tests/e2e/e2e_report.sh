#!/bin/bash
# report: one page from stored runs, whose figures are those of the database; refusals.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/r.db page=$tmp/r.html
sim=(--cost-model "linear:a=5ms,b=20us,c=100us" --num-gpu-blocks-override 400 --db "$db")
"$LOCKSTEP" trace generate --num-prompts 300 --seed 3 "$tmp/made.jsonl" >/dev/null || exit 1

# The data of the page $1.
data() { sed -n 's#^<script type="application/json" id="data">\(.*\)</script>$#\1#p' "$1"; }
sql() { sqlite3 "$db" "$1"; }

expect "no database is refused" refused "makes a database" report --db "$tmp/none.db" -o "$page"
run compare "${sim[@]}" --policies continuous,chunked --record steps "$tmp/made.jsonl"
expect "two runs are stored" test "$status" -eq 0
expect "and it is said how to look at them" has "$out" "Stored as runs 1 to 2 in $db; \`lockstep report --db $db 1-2\` makes a page"
run report --db "$db" -o "$page"
if [ "$status" -eq 2 ] && has "$err" "libjs-vega"; then
	skip "report: Vega is not installed (libjs-vega)"
	finish
fi
expect "a page is made" test "$status" -eq 0 -a -s "$page" -a -z "$err"
expect "and said" has "$out" "r.html: 1 run"
expect "of the latest run" holds "$(data "$page")" '.runs | length == 1 and .[0].run_id == 2 and .[0].charted'
expect "it refers to nothing outside" test "$(grep -ciE '(src|href)="?(https?:)?//|@import|url\(' <(sed '/^<script>/,$d' "$page"))" -eq 0
expect "its policy runs its own script only" grep -q "default-src 'none'; script-src 'sha256-[A-Za-z0-9+/]*='" "$page"
if command -v openssl >/dev/null; then
	# The digest is that of the script as it stands there.
	script=$(sed -n '/^<script>$/,/^<\/script>$/p' "$page" | sed '1s/^<script>//; $d')
	expect "by the digest it has" grep -qF "sha256-$(printf '%s\n' "$script" | openssl dgst -sha256 -binary | base64)" "$page"
fi
run report 1 2 --db "$db" -o "$page"
json=$(data "$page")
expect "two runs in the order given" holds "$json" '[.runs[].run_id] == [1, 2]'
for id in 1 2; do
	expect "every figure of run $id is the database's" same \
		"$(jq -r --argjson i $((id - 1)) '.runs[$i].metrics | to_entries[] | select(.value[0] != null) | [.key, (.value[0] | tostring)] | join("|")' <<<"$json" | sort)" \
		"$(sqlite3 -json "$db" "select name, value from metrics where run_id = $id and value is not null" | jq -r '.[] | [.name, (.value | tostring)] | join("|")' | sort)"
	expect "the distributions are of its requests" same \
		"$(jq -c --argjson i $((id - 1)) '.runs[$i].curves | [.ttft, .tpot, .e2el | .value[0], .value[-1]]' <<<"$json")" \
		"$(sqlite3 -json "$db" "select min(ttft_ms) a, max(ttft_ms) b, min(tpot_ms) c, max(tpot_ms) d, min(e2el_ms) e, max(e2el_ms) f from request_latency where run_id = $id" | jq -c '.[0] | [.a, .b, .c, .d, .e, .f]')"
done
for i in 0 1; do
	id=$((i + 1))
	expect "the steps of run $id are the database's" same \
		"$(jq -c --argjson i $i '.runs[$i].steps | if .exact then error else . end | [.rows, (.duration.sum | add), (.prefill_tokens.sum | add), (.decodes.sum | add), (.running.hi | max), (.waiting.hi | max), (.blocks_used.hi | max)]' <<<"$json")" \
		"$(sqlite3 -json "$db" "select count(*) a, sum(duration_ns) b, sum(prefill_tokens) c, sum(decodes) d, max(running) e, max(waiting) f, max(blocks_used) g from steps where id >> 32 = $id" | jq -c '.[0] | [.a, .b, .c, .d, .e, .f, .g]')"
done
expect "a run without a device has no roofline, and says why" holds "$json" '.runs[0].roofline.why == "the run names no model"'
expect "differences are of every request against itself" same \
	"$(jq -r '.runs[1].pairs | [.against, .ttft.n, .ttft.less, .ttft.more, (.ttft.mean * 1000 | round), (.e2el.value[0] * 1000 | round), (.tpot.mean * 1000 | round)] | join("|")' <<<"$json")" \
	"$(sql "select 1, count(*), sum(b.ttft_ms < a.ttft_ms), sum(b.ttft_ms > a.ttft_ms), cast(round(avg(b.ttft_ms - a.ttft_ms) * 1000) as int), cast(round(min(b.e2el_ms - a.e2el_ms) * 1000) as int), cast(round(avg(b.tpot_ms - a.tpot_ms) * 1000) as int) from request_latency a join request_latency b using (request) where a.run_id = 1 and b.run_id = 2")"
expect "what a run changes is what compare says" same "$(jq -S '.runs[1].pairs.effects[0].figures' <<<"$json")" "$("$LOCKSTEP" compare 1 2 --db "$db" --json | jq -S '.effects[0].figures')"
# Phases as they were add up to what the database has of each request.
expect "phases add up to the table's times" same \
	"$(jq -r '.runs[1].gantt | . as $g | [.groups[].rows[] | {key: (.[0] | tostring), value: .}] | from_entries as $rows
		| [$g.phases[] | select(.[1] == "queued")] | map(.[3] - .[2] - $rows[.[0] | tostring][4]) | map(. * . ) | add' <<<"$json")" 0
# shellcheck disable=SC2016 # jq's variables
expect "to the end of each request" holds "$json" '.runs[1].gantt | ([.groups[].rows[] | {key: (.[0] | tostring), value: (.[2] + .[4] + .[5] + .[6] + .[7] + .[8])}] | from_entries) as $last
	| [.phases[] | select(.[1] != "held")] | group_by(.[0]) | all(. as $p | ($p | map(.[3]) | max) == $last[$p[0][0] | tostring])'
# The map of blocks, made again, is of the same memory as the steps that were stored.
# shellcheck disable=SC2016
map='.runs[$i].blocks as $b | [range($b.at | length) | . as $c | [$b.at[$c], ([range($b.rows) | $b.cells[4 * ($c * $b.rows + .)] + $b.cells[4 * ($c * $b.rows + .) + 1]] | add),
	([range($b.rows) | $b.cells[4 * ($c * $b.rows + .) + 2]] | add)]]'
expect "blocks are used as each step says" same "$(jq -c --argjson i 1 "$map" <<<"$json")" \
	"$(sqlite3 -json "$db" "select start_ns + duration_ns a, blocks_used b, blocks_cached c from steps where id >> 32 = 2 and (id & 4294967295) % $(jq '.runs[1].blocks.every' <<<"$json") = 0" |
		jq -c 'map([.a, .b, .c])')"
run report 2 --no-phases --db "$db" -o "$page"
expect "phases are not told where they are not wanted" holds "$(data "$page")" '.runs[0].gantt | (has("phases") | not) and .why == "--no-phases was given"'
run report 2 1 --db "$db" -o - --quiet
expect "standard output" test "$status" -eq 0 -a "$(grep -c '^<!DOCTYPE html>$' <<<"$out")" -eq 1
expect "in another order" holds "$(sed -n 's#^<script type="application/json" id="data">\(.*\)</script>$#\1#p' <<<"$out")" '[.runs[].run_id] == [2, 1]'
run report 1-2 --db "$db" -o "$page"
expect "a range" holds "$(data "$page")" '[.runs[].run_id] == [1, 2] and (.all | not)'
expect "a range without runs is refused" refused "no run from 50 to 60" report 50-60 --db "$db" -o "$page"
expect "no number" refused '"1-x" is not a run' report 1-x --db "$db" -o "$page"
run report --all --db "$db" -o "$page"
expect "all runs" holds "$(data "$page")" '.all and (.runs | length == 2)'

# --- names that mean something to a browser
mkdir "$tmp/in" && hostile="$tmp/in/a\"'></script><script>alert(1)<!--&.jsonl"
mkdir -p "$(dirname "$hostile")" && cp "$tmp/made.jsonl" "$hostile"
run replay "${sim[@]}" --policy chunked --num-prompts 20 "$hostile"
expect "a trace of a hostile name is served" test "$status" -eq 0
run report --db "$db" -o "$page"
expect "the page has its own two scripts" test "$(grep -o '<script' "$page" | wc -l)" -eq 2 -a "$(grep -o '</script' "$page" | wc -l)" -eq 2
expect "the name is data" holds "$(data "$page")" '.runs[0].trace | endswith("a\"'"'"'></script><script>alert(1)<!--&.jsonl")'

# --- shared and cached blocks
jq -nc 'range(60) | {arrival_s: (. * 0.1), input_tokens: 448, output_tokens: 40, hash_block: 64, hash_ids: [1, 2, 3, 4, 5, (10 + . % 7), (100 + .)]}' >"$tmp/shared.jsonl"
run replay --cost-model "linear:a=5ms,b=20us,c=100us" --num-gpu-blocks-override 300 --prefix-cache hash --policy chunked --record steps --db "$db" "$tmp/shared.jsonl"
expect "prefixes are shared" test "$status" -eq 0
run report --db "$db" -o "$page"
expect "shared and cached blocks are as each step says" same "$(data "$page" | jq -c --argjson i 0 "$map")" \
	"$(sqlite3 -json "$db" "select start_ns + duration_ns a, blocks_used b, blocks_cached c from steps where id >> 32 = (select max(run_id) from runs)
		and (id & 4294967295) % $(data "$page" | jq '.runs[0].blocks.every') = 0" | jq -c 'map([.a, .b, .c])')"
# shellcheck disable=SC2016
expect "some are shared, some cached" holds "$(data "$page")" '.runs[0].blocks as $b | [range($b.cells | length / 4) | $b.cells[4 * . + 1]] | add > 0 and ([range($b.cells | length / 4) | $b.cells[4 * . + 2]] | add > 0)'

# --- roofs
run replay --model llama-3.1-8b --device l4 --db "$db" --quiet --num-prompts 30 --record steps "$tmp/made.jsonl"
run report --db "$db" -o "$page"
expect "few steps are all there" same "$(data "$page" | jq -c '.runs[0].steps | [.exact, .rows, (.start | add), (.duration | add), (.decodes | add)]')" \
	"$(sqlite3 -json "$db" "select count(*) b, sum(start_ns) c, sum(duration_ns) d, sum(decodes) e from steps where id >> 32 = (select max(run_id) from runs)" | jq -c '.[0] | [true, .b, .c, .d, .e]')"
# shellcheck disable=SC2016
expect "every step lies under the roofs" holds "$(data "$page")" '.runs[0].roofline | (.cells | map(.[1]) | add) == .steps and .steps > 30 and .bytes_per_s == 300e9
	and (. as $r | .cells | all(.[2] / .[4] * 1e9 <= $r.flops_per_s and .[2] / .[4] * 1e9 <= .[2] / .[3] * $r.bytes_per_s))'

# --- many steps: they are kept in outline
"$LOCKSTEP" trace generate --num-prompts 2000 --seed 4 "$tmp/many.jsonl" >/dev/null || exit 1
run replay --model llama-3.1-8b --device h100-sxm --policy chunked --max-num-seqs 2 --db "$db" --record steps "$tmp/many.jsonl"
many=$(sql 'select max(run_id) from runs')
expect "so many that they have an outline" test "$(sql "select count(*) from steps where id >> 32 = $many")" -gt 200000 -a "$(sql 'select count(*) from step_outline')" -gt 1000
run report --no-phases --db "$db" -o "$page"
expect "extremes and sums are of all of them" same \
	"$(data "$page" | jq -c '.runs[0].steps | [.rows, (.duration.sum | add), (.duration.lo | min), (.duration.hi | max), (.waiting.hi | max), (.output_tokens.sum | add)]')" \
	"$(sqlite3 -json "$db" "select count(*) a, sum(duration_ns) b, min(duration_ns) c, max(duration_ns) d, max(waiting) e, sum(output_tokens) f from steps where id >> 32 = $many" | jq -c '.[0] | [.a, .b, .c, .d, .e, .f]')"
expect "the roofline is of a sample, and says so" holds "$(data "$page")" '.runs[0] | .roofline.every > 1 and .roofline.steps > 100000 and .roofline.steps <= 200001 and .roofline.steps == (.roofline.cells | map(.[1]) | add)'

# --- searches and experiments
run slo --model llama-3.1-8b --devices l40s,h100-sxm --policies chunked --goodput ttft:500 tpot:80 --db "$db" --num-prompts 100 --quiet "$tmp/made.jsonl"
echo '{"name": "two", "base": {"dataset-path": "'"$tmp/made.jsonl"'", "cost-model": "constant:10ms", "num-gpu-blocks-override": 400, "num-prompts": 50}, "grid": {"policy": ["chunked", "continuous"]}}' >"$tmp/two.json"
run sweep --db "$db" --quiet "$tmp/two.json"
expect "a sweep" test "$status" -eq 0
run report --all --db "$db" -o "$page"
json=$(data "$page")
expect "--all shows searches, every point of them" same "$(jq -c '[.searches | length, (.[0].configurations | length), (.[0].points | map(.attainment) | add)]' <<<"$json")" \
	"$(sqlite3 -json "$db" "select (select count(*) from slo_searches) a, (select count(*) from slo_configurations) b, (select sum(attainment) from slo_points) c" | jq -c '.[0] | [.a, .b, .c]')"
expect "and experiments with the figures of their runs" same "$(jq -c '.sweeps[0].points | map([.run_id, .p99_ttft_ms])' <<<"$json")" \
	"$(sqlite3 -json "$db" "select run_id, value from sweep_points join metrics using (run_id) where name = 'p99_ttft_ms' order by position" | jq -c 'map([.run_id, .value])')"
run report 1 --db "$db" -o "$page"
expect "but not beside a run that has nothing to do with them" holds "$(data "$page")" '.sweeps == [] and .validations == []'

# --- runs without requests, and refusals
run replay "${sim[@]}" --policy chunked --num-prompts 20 --record none "$tmp/made.jsonl"
run report --db "$db" -o "$page"
expect "a run without its requests has figures" holds "$(data "$page")" '.runs[0] | .recorded == "none" and .metrics.completed[0] == 20 and (has("curves") | not)'
before=$(cat "$page")
expect "an unknown run is refused" refused "there is no run 77" report 77 --db "$db" -o "$page"
expect "and the page is as it was" same "$(cat "$page")" "$before"
expect "one named twice is refused" refused "named twice" report 1 1 --db "$db" -o "$page"
expect "--all and a run is refused" refused "stands for every run" report --all 1 --db "$db" -o "$page"
run report --db "$db" -o "$tmp/nowhere/r.html"
expect "a folder that is not there" same "$status|$err" "1|lockstep report: $tmp/nowhere/r.html: No such file or directory"
expect "nothing is left beside it" test -z "$(ls "$tmp"/*.part 2>/dev/null)"
if [ -w /dev/full ]; then
	run report --db "$db" -o /dev/full
	expect "a full disk is an error" test "$status" -eq 1
fi
finish
