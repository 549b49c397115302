#!/bin/bash
# show: a stored run in text: figures as in the database, as wide as asked, plain where it must be.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/s.db
sim=(--cost-model "linear:a=5ms,b=20us,c=100us" --db "$db" --quiet)
made=(--dataset-name random --num-prompts 300 --request-rate 40)
unset LC_ALL LC_CTYPE LANG COLUMNS NO_COLOR
run replay "${sim[@]}" --num-gpu-blocks-override 300 "${made[@]}" --record steps --metric-percentiles 50,90,99
run compare "${sim[@]}" --num-gpu-blocks-override 300 "${made[@]}" --policies chunked --replicas 2 --router round_robin

widest() { LC_ALL=C.UTF-8 wc -L <<<"$1"; }
uncolored() { sed 's/\x1b\[[0-9]*m//g'; }
only_ascii() { ! LC_ALL=C grep -q '[^ -~]' <<<"$1"; }

run show 1 --db "$db"
expect "a run is shown" test "$status" -eq 0 -a -z "$err"
expect "in ASCII where no locale says UTF-8" only_ascii "$out"
expect "80 columns where there is no terminal" test "$(widest "$out")" -le 80
for title in Waiting Running "KV memory" Batch TTFT TPOT E2E; do expect "it has $title" grep -q "^$title  " <<<"$out"; done
plain=$out
for l in ttft tpot e2el; do
	for p in mean p50 p90 p99; do
		value=$(sqlite3 "$db" "select printf('%.10g', value) from metrics where run_id = 1 and name = '${p}_${l}_ms'")
		column=$(case $p in mean) echo 2 ;; p50) echo 3 ;; p90) echo 4 ;; p99) echo 5 ;; esac)
		shown=$(awk -v l="$(case $l in ttft) echo TTFT ;; tpot) echo TPOT ;; *) echo E2E ;; esac)" -v c="$column" \
			'$1 == l && NF == 6 && $2 ~ /^[0-9]/ { print $c; exit }' <<<"$out" | tr -d ,)
		expect "$p of $l is the database's" awk -v a="$shown" -v b="$value" 'BEGIN { exit !(a != "" && (a - b) ^ 2 <= (b * 6e-4) ^ 2) }'
	done
done
expect "most waited as recorded" has "$out" "held no memory, at most $(sqlite3 "$db" 'select max(waiting) from steps')"
expect "most ran as recorded" has "$out" "that held memory, at most $(sqlite3 "$db" 'select max(running) from steps')"
expect "most blocks as recorded" has "$out" "at most $(sqlite3 "$db" 'select max(blocks_used) from steps') of 300 blocks"
LC_ALL=C.UTF-8 run show 1 --db "$db"
expect "blocks and braille with UTF-8" grep -q '[▁▂▃▄▅▆▇█]' <<<"$out"
expect "no wider in characters" test "$(widest "$out")" -le 80
LC_ALL=C.UTF-8 run show 1 --db "$db" --ascii
expect "--ascii is the same as without UTF-8" same "$out" "$plain"
COLUMNS=60 run show 1 --db "$db"
expect "COLUMNS makes it narrower" test "$(widest "$out")" -le 60
run show 1 --db "$db" --width 120
expect "--width makes it wider" test "$(widest "$out")" -le 120 -a "$(widest "$out")" -gt 100
run show 1 --db "$db" --from 2 --to 4
expect "a window" has "$out" "$(sqlite3 "$db" 'select count(*) from requests where id >> 32 = 1 and arrival_ns >= 2e9 and arrival_ns < 4e9') requests arrived"
run show 2 --db "$db"
expect "several replicas are shown, one on average" test "$status" -eq 0 -a -z "$err"
expect "it says so" has "$out" "of a replica"
expect "with their memory" grep -q '^KV memory' <<<"$out"
run show 2 --db "$db" --totals
expect "or by their requests' totals" test "$status" -eq 0
expect "queue and running are there" grep -q "^Running" <<<"$out"
expect "memory is not known" test -z "$(grep '^KV memory' <<<"$out")"

# The steps of a run that did not keep them are made again, and are the same.
run replay "${sim[@]}" --num-gpu-blocks-override 300 "${made[@]}"
run show --db "$db"
expect "steps are made again" same "$(tail -n +2 <<<"$out")" "$(tail -n +2 <<<"$plain")"
run show --db "$db" --totals
expect "--totals does without" test "$status" -eq 0 -a -z "$(grep '^Batch' <<<"$out")"

# A terminal has colour and a width of its own.
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
	on_terminal() { script -qec "stty cols 100; TERM=xterm LC_ALL=C.UTF-8 $* $LOCKSTEP show 1 --db $db" /dev/null </dev/null | tr -d '\r'; }
	out=$(on_terminal)
	expect "colour on a terminal" has "$out" $'\033[36m'
	expect "as wide as the terminal" test "$(widest "$(uncolored <<<"$out")")" -eq 100
	out=$(on_terminal NO_COLOR=1)
	expect "NO_COLOR" test -n "$out" -a -z "$(grep -F $'\033' <<<"$out")"
else
	skip "colour: there is no terminal to be had (script, /dev/pts)"
fi

# What would take the terminal over stays text.
printf '%s\n' '{"arrival_s": 0, "input_tokens": 20, "output_tokens": 4}' >"$tmp/"$'evil\033]0;x\a.jsonl'
run replay "${sim[@]}" --num-gpu-blocks-override 900 "$tmp/"$'evil\033]0;x\a.jsonl'
run show --db "$db"
expect "a file's name is text" has "$out" "evil?]0;x?.jsonl"
rm "$tmp/"$'evil\033]0;x\a.jsonl'
run replay "${sim[@]}" --num-gpu-blocks-override 900 "$tmp/"$'evil\033]0;x\a.jsonl'
expect "in errors as well" test "$status" -eq 2 -a -z "$(grep -F $'\033' <<<"$err")"

expect "no such run" refused "there is no run 99" show 99 --db "$db"
expect "one at a time" refused "one too many" show 1 2 --db "$db"
expect "a window turned round" refused "nothing lies between" show --from 5 --to 2 --db "$db"
expect "too narrow" refused "--width" show --width 10 --db "$db"
run replay "${sim[@]}" --num-gpu-blocks-override 300 "${made[@]}" --record none
expect "a run of which nothing is kept" refused "made with --record none" show --db "$db"
finish
