#!/bin/bash
# replay --watch: a view that is drawn in place on a terminal and wiped, lines elsewhere; no figure changes.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
unset LC_ALL LC_CTYPE LANG COLUMNS NO_COLOR
# Long enough to be looked at several times.
many=${LOCKSTEP_TEST_SHORT:+100000}
many=${many:-200000}
long=(replay --model llama-3.1-8b --device h100-sxm --dataset-name random --request-rate 10 --no-db)

# What is on the screen after everything in $1 was written to it: lines, of which "\033[nA" goes up n, "\033[J" and "\033[K" wipe.
screen() {
	tr -d '\r' <<<"$1" | awk '{
		line = $0
		while (match(line, /\033\[[0-9]*[AJK]/)) {
			code = substr(line, RSTART, RLENGTH); n = substr(code, 3, length(code) - 3); what = substr(code, length(code))
			text = text substr(line, 1, RSTART - 1); line = substr(line, RSTART + RLENGTH)
			if (what == "A") at -= n
			if (what == "J") for (i = at; i < most; i++) rows[i] = ""
		}
		rows[at++] = text line; text = ""
		if (at > most) most = at
	} END { for (i = 0; i < most; i++) print rows[i] }'
}
viewed() { screen "$1" | grep -cE '^per s |^(waiting|running)   [0-9]|^KV memory \['; }

if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
	on_terminal() { timeout 100 script -qec "stty cols 100 rows 30; export TERM=xterm; $*" /dev/null </dev/null; }
	out=$(on_terminal LC_ALL=C.UTF-8 "$LOCKSTEP" "${long[@]}" --num-prompts "$many" --watch)
	expect "progress is drawn" env LC_ALL=C.UTF-8 grep -qE 'chunked +\[█*░*\] +[0-9]+ %' <<<"$out"
	for what in "simulated in" "waiting " "running " "KV memory \[" "per s " " left"; do
		expect "the view has $what" grep -q "$what" <<<"$out"
	done
	expect "it is drawn in place" has "$out" $'\033[6A'
	expect "and wiped: the result alone stays" same "$(viewed "$out")" 0
	expect "the result is there" has "$(screen "$out")" "of serving"
	out=$(on_terminal "$LOCKSTEP" "${long[@]}" --num-prompts "$many" --replicas 2 --watch)
	expect "ASCII where no locale says UTF-8" grep -qE 'chunked +\[#*\.*\] +[0-9]+ %' <<<"$out"
	out=$(on_terminal "timeout --foreground --preserve-status -s INT 2 $LOCKSTEP ${long[*]} --num-prompts 300000 --check --watch; echo status \$?")
	expect "Ctrl-C ends it in order" has "$out" "status 130"
	expect "and the view is wiped" same "$(viewed "$out")" 0
	expect "nothing is left hidden or changed" test -z "$(grep -F $'\033[?' <<<"$out")"
else
	skip "the view: there is no terminal to be had (script, /dev/pts)"
fi

run "${long[@]}" --num-prompts 10000 --json
plain=$(jq -S 'del(.date, .sim_wall_s, .settings.arguments)' <<<"$out")
run "${long[@]}" --num-prompts 10000 --json --watch
expect "no figure changes" same "$(jq -S 'del(.date, .sim_wall_s, .settings.arguments)' <<<"$out")" "$plain"
expect "no terminal, and soon over: nothing is said" test "$status" -eq 0 -a -z "$err"
expect "--quiet does not go with it" refused "--watch and --quiet" replay --watch --quiet x.csv
finish
