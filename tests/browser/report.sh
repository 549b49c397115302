#!/bin/bash
# The page of `report` in a real browser: no message on its console, charts drawn, pointer, zoom and keys, every figure the
# database's, names that mean something to a browser. Chromium without a window; skipped where there is none.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
here=$(dirname "$0")
db=$tmp/b.db page=$tmp/page.html

browser=
for b in chromium chromium-browser google-chrome chrome; do
	[ -n "$browser" ] || browser=$(command -v $b)
done
if [ -z "$browser" ]; then
	skip "the report in a browser: there is no Chromium here"
	finish
fi

# Opens $1 in a window of $2 x 900; leaves the page as it then is in $tmp/dom, what its console said in $tmp/console.
open_page() {
	timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions --no-first-run \
		--hide-scrollbars --user-data-dir="$tmp/profile" --window-size="$2",900 --virtual-time-budget=60000 --enable-logging=stderr --dump-dom \
		"file://$1" >"$tmp/dom" 2>"$tmp/log"
	grep ':CONSOLE' "$tmp/log" >"$tmp/console"
}

echo '<!DOCTYPE html><title>t</title><p id="result">' >"$tmp/empty.html"
open_page "$tmp/empty.html" 800
if ! grep -q 'id="result"' "$tmp/dom"; then
	skip "the report in a browser: $browser does not start here ($(grep -v '^$' "$tmp/log" | tail -1 | cut -c 1-120))"
	finish
fi

# The page $1 with the tests put into it, and what they expect ($2, JSON): its policy would keep them out.
with_tests() {
	sed 's#<meta http-equiv="Content-Security-Policy"[^>]*>##; /^<\/body>/d; /^<\/html>/d' "$1"
	printf '<script type="application/json" id="expected">%s</script>\n<script>\n' "${2//</\\u003c}"
	cat "$here/hook.js"
	printf '</script>\n</body>\n</html>\n'
}

# Every line that the tests left counts as a test.
count_results() {
	local line
	expect "$1: the tests ran to their end" grep -q '^<pre id="result">\|<pre id="result">' "$tmp/dom"
	while read -r line; do
		case $line in
		"ok "*) passed=$((passed + 1)) ;;
		"FAILED "*)
			failed=$((failed + 1))
			echo "  FAILED $1: ${line#FAILED }" | cut -c 1-400
			;;
		esac
	done < <(sed -n '/<pre id="result">/,/<\/pre>/p' "$tmp/dom")
	out=$(cat "$tmp/console")
	expect "$1: the console is silent" test ! -s "$tmp/console"
}

"$LOCKSTEP" trace generate --num-prompts 160 --seed 5 "$tmp/made.jsonl" >/dev/null || exit 1
run compare --model llama-3.1-8b --device l4 --policies chunked,continuous --num-gpu-blocks-override 700 --record steps --length-scale 0.5 \
	--db "$db" --quiet "$tmp/made.jsonl"
expect "two runs" test "$status" -eq 0
run report 1 2 --db "$db" -o "$page"
if [ "$status" -eq 2 ] && has "$err" "libjs-vega"; then
	skip "the report in a browser: Vega is not installed (libjs-vega)"
	finish
fi
expect "a report" test "$status" -eq 0

# --- as it is
open_page "$page" 1300
out=$(cat "$tmp/console")
expect "under its own policy the page shows itself" grep -q '<h1>chunked, continuous</h1>' "$tmp/dom"
expect "and says nothing on the console" test ! -s "$tmp/console"
# Charts are made when they come into sight, which takes a picture.
timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-extensions --no-first-run --user-data-dir="$tmp/profile" \
	--window-size=1300,3000 --virtual-time-budget=20000 --enable-logging=stderr --screenshot="$tmp/page.png" "file://$page" >/dev/null 2>"$tmp/log"
grep ':CONSOLE' "$tmp/log" >"$tmp/console"
out=$(cat "$tmp/console")
expect "nor when its charts are drawn" test ! -s "$tmp/console" -a -s "$tmp/page.png"

# --- what it shows
metrics=$(sqlite3 -json "$db" 'select run_id, name, value from metrics' | jq -c 'group_by(.run_id) | map({key: (.[0].run_id | tostring), value: (map({key: .name, value: .value}) | from_entries)}) | from_entries')
extremes=$(sqlite3 -json "$db" "select run_id, min(ttft_ms) ttft_min, max(ttft_ms) ttft_max, min(tpot_ms) tpot_min, max(tpot_ms) tpot_max,
	min(e2el_ms) e2el_min, max(e2el_ms) e2el_max from request_latency group by run_id" | jq -c 'map({key: (.run_id | tostring), value: .}) | from_entries')
steps=$(sqlite3 -json "$db" "select id & 4294967295 step, start_ns, duration_ns, running, waiting from steps where id >> 32 = 1 and (id & 4294967295) % (select count(*) / 8 from steps where id >> 32 = 1) = 3")
rows=$(sed -n 's#^<script type="application/json" id="data">\(.*\)</script>$#\1#p' "$page" | jq -r '.runs[0].gantt.groups[0].rows | map(.[0]) | join(",")')
queued=$(sqlite3 "$db" "select sum(queue_ns) from request_detail where run_id = 1 and request in ($rows)")
with_tests "$page" "{\"charts\": 20, \"metrics\": $metrics, \"extremes\": $extremes, \"steps\": $steps, \"gantt_queue_ns\": $queued}" >"$tmp/tested.html"
open_page "$tmp/tested.html" 1300
count_results "the report"
open_page "$tmp/tested.html" 420
count_results "on a small screen"

# --- runs of which little is known: one request, all at once, nobody served, no cache, memory in one piece, replicas, killed
odd=$tmp/odd.db
other=(--cost-model "linear:a=5ms,b=20us,c=100us" --num-gpu-blocks-override 400 --db "$odd" --quiet "$tmp/made.jsonl")
run replay --num-prompts 1 --record steps "${other[@]}"
run replay --request-rate inf --record steps "${other[@]}"
run replay --max-model-len 8 --record steps "${other[@]}"
run replay --num-prompts 20 --kv-cache off --policy orca --record steps "${other[@]}"
run replay --num-prompts 20 --policy naive "${other[@]}"
run replay --num-prompts 50 --replicas 2 --router round_robin "${other[@]}"
run replay --num-prompts 20 --record none "${other[@]}"
run replay --num-prompts 20 --record steps "${other[@]}"
sqlite3 "$odd" "UPDATE runs SET status = 'running', result = NULL WHERE run_id = 8; DELETE FROM metrics WHERE run_id = 8; DELETE FROM requests WHERE id >> 32 = 8"
for which in 1-8 8; do
	run report $which --db "$odd" -o "$page"
	expect "a page of odd runs, $which" test "$status" -eq 0
	with_tests "$page" "{\"odd\": [${which/1-8/1, 2, 3, 4, 5, 6, 7, 8}]}" >"$tmp/tested.html"
	open_page "$tmp/tested.html" 1300
	count_results "odd runs, $which"
done

# --- names that mean something to a browser
hostile=$tmp/'"><img src=x onerror="window.hacked=1">'\''</script><script>window.hacked=1;/*.jsonl'
mkdir -p "$(dirname "$hostile")" && head -40 "$tmp/made.jsonl" |
	awk '{sub(/^\{/, "{\"id\": \"</script><script>window.hacked = 1</script>\\u2028\\u0007<img src=x onerror=window.hacked=1>" NR "\", "); print}' >"$hostile"
run replay --model llama-3.1-8b --device l4 --record steps --db "$db" --quiet "$hostile"
if [ "$status" -eq 0 ]; then
	run report --db "$db" -o "$page"
	with_tests "$page" "{\"hostile\": $(printf '%s' "$hostile" | jq -Rs .)}" >"$tmp/tested.html"
	open_page "$tmp/tested.html" 1300
	count_results "hostile names"
	open_page "$page" 1300
	expect "hostile names under the page's own policy" test ! -s "$tmp/console"
else
	expect "a trace of a hostile name is served" test "$status" -eq 0
fi
finish
