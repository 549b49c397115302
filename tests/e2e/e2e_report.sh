#!/bin/bash
# report: one page from stored runs, whose figures are those of the database; refusals.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/r.db page=$tmp/r.html
sim=(--cost-model "linear:a=5ms,b=20us,c=100us" --num-gpu-blocks-override 400 --db "$db" --quiet)
"$LOCKSTEP" trace generate --num-prompts 300 --seed 3 "$tmp/made.jsonl" >/dev/null || exit 1

# The data of the page $1.
data() { sed -n 's#^<script type="application/json" id="data">\(.*\)</script>$#\1#p' "$1"; }
sql() { sqlite3 "$db" "$1"; }

expect "no database is refused" refused "makes a database" report --db "$tmp/none.db" -o "$page"
run compare "${sim[@]}" --policies continuous,chunked --record steps "$tmp/made.jsonl"
expect "two runs are stored" test "$status" -eq 0
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
run report 2 1 --db "$db" -o - --quiet
expect "standard output" test "$status" -eq 0 -a "$(grep -c '^<!DOCTYPE html>$' <<<"$out")" -eq 1
expect "in another order" holds "$(sed -n 's#^<script type="application/json" id="data">\(.*\)</script>$#\1#p' <<<"$out")" '[.runs[].run_id] == [2, 1]'
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
expect "a folder that is not there" test "$status" -eq 1 -a -n "$err"
expect "nothing is left beside it" test -z "$(ls "$tmp"/*.part 2>/dev/null)"
if [ -w /dev/full ]; then
	run report --db "$db" -o /dev/full
	expect "a full disk is an error" test "$status" -eq 1
fi
finish
