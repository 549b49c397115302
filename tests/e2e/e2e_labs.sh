#!/bin/bash
# lockstep lab: every solution reaches all points, every starter none, with the right words; what a lab of one's own may get wrong.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

export LOCKSTEP_INCLUDE=$PWD # the program under test is a copy that lies elsewhere

run lab list --json
expect "labs are listed" test "$status" -eq 0 -a "$(jq -r '.labs | length' <<<"$out")" -eq "$(find docs/labs -name grade.json | wc -l)"
list=$out
for lab in $(jq -r '.labs[].lab' <<<"$list"); do
	folder=docs/labs/$lab
	answer=$(jq -r ".labs[] | select(.lab == \"$lab\") | .answer" <<<"$list")
	solution=$folder/solution.${answer##*.}
	expect "lab $lab has a page" test -s "$folder/README.md"
	run lab grade "$lab" "$solution" --json
	expect "lab $lab: the solution reaches all points" test "$status" -eq 0
	expect "lab $lab: and says so" holds "$out" '.points == .of and .of >= 10 and all(.tests[]; .passed and .seconds < 20)'
	run lab start "$lab" "$tmp/lab-$lab"
	expect "lab $lab is started" test "$status" -eq 0 -a -s "$tmp/lab-$lab/README.md" -a -s "$tmp/lab-$lab/$answer"
	expect "lab $lab: without the solution and the tests" test ! -e "$tmp/lab-$lab/grade.json" -a -z "$(find "$tmp/lab-$lab" -name 'solution*')"
	expect "lab $lab: nothing that is there is touched" refused "is there already" lab start "$lab" "$tmp/lab-$lab"
	run lab grade "$lab" "$tmp/lab-$lab/$answer" --json
	expect "lab $lab: the starter fails" same "$status" 1
	if [ "$answer" = answers.json ]; then
		expect "lab $lab: with the right words, test for test" holds "$out" '.points == 0 and all(.tests[]; .message | contains("is not filled in yet"))'
		# Each key is asked for, and each of the solution's stands in the starter.
		expect "lab $lab: starter and solution have the same keys" same "$(jq -c 'keys' "$folder/starter.json")" "$(jq -c 'keys' "$solution")"
	fi
	if [ "$answer" = mine.c ]; then
		make -s -C "$tmp/lab-$lab" LOCKSTEP="$LOCKSTEP" >"$tmp/log" 2>&1
		expect "lab $lab: the Makefile builds it" test -s "$tmp/lab-$lab/mine.so"
		expect "lab $lab: the starter is sound" holds "$out" '.tests[0].passed and .points > 0'
		expect "lab $lab: and slow, which is said" holds "$out" 'any(.tests[]; .message // "" | contains("mean TTFT on hidden trace bursts-a is") and contains("it must be at most"))'
	fi
	# Those two are the slowest.
	[[ -n ${LOCKSTEP_TEST_SHORT:-} || $lab == [57] ]] && continue
	run lab grade "$lab" "$solution" --seed 1234567 --json
	expect "lab $lab: the solution holds on other hidden traces" same "$status" 0
done

# As a page, whatever the names say.
evil="$tmp/<script>alert(1)</script>.json"
mkdir -p "$(dirname "$evil")"
jq '.p_tokens.because = "</pre><script>alert(2)</script> it is so because"' docs/labs/0/solution.json >"$evil"
run lab grade 0 "$evil" --html "$tmp/page.html"
expect "a page is written beside the text" test "$status" -eq 0 -a "$(grep -c '<tr><td' "$tmp/page.html")" -eq 10
expect "with the sum" grep -q '15 of 15 points' "$tmp/page.html"
expect "nothing in it is a script" same "$(grep -ci '<script' "$tmp/page.html")" 0
expect "and nothing comes from elsewhere" same "$(grep -cE 'src=|href=|url\(' "$tmp/page.html")" 0
run lab grade 0 "$evil" --html "$tmp/nowhere/page.html"
expect "a page that cannot be written" test "$status" -eq 1 -a -n "$(grep "nowhere" <<<"$err")"

# Text, and figures that are wrong.
jq '.tpot_on = 1 | .helps_cached = "flops" | .free_prompt = 3000 | .p_tokens.because = "no idea" | .tokens_off = "many" | .helps_uncached = "luck"' \
	docs/labs/0/solution.json >"$tmp/wrong.json"
run lab grade 0 "$tmp/wrong.json"
flat=$(tr -s ' \n' ' ' <<<"$out")
expect "a wrong figure is told, with where to look" has "$flat" "tpot_on: 1.000 is not what comes out; look at mean_tpot_ms of \`lockstep replay"
expect "a wrong choice" has "$flat" 'helps_cached: the runs do not say "flops"'
expect "a choice there is not" has "$flat" 'helps_uncached must be one of "flops", "bandwidth"'
expect "a setting that does not do" has "$flat" "it must be at most 1.100"
expect "a prediction without a reason" has "$flat" "p_tokens: say why in at least 5 words"
expect "a word for a number" has "$flat" "tokens_off must be a number"
expect "the points are added up" has "$out" "$(jq -n '15 - 1 - 2 - 3 - 1 - 1 - 2') of 15 points"
jq '.free_prompt = 1e9' docs/labs/0/solution.json >"$tmp/wrong.json"
run lab grade 0 "$tmp/wrong.json"
expect "a setting out of bounds" has "$(tr -s ' \n' ' ' <<<"$out")" "free_prompt: 1000000000 is not within 1 to 4096"
jq '.free_prompt = "1 --db /tmp/x"' docs/labs/0/solution.json >"$tmp/wrong.json"
run lab grade 0 "$tmp/wrong.json"
expect "a setting that is words" has "$(tr -s ' \n' ' ' <<<"$out")" "free_prompt must be a number"

# Policies that crash, loop, cheat or are none: the grader goes on and says what they did.
break_policy() { # a line to put before everything else in plan()
	awk -v line="$1" '1; /^static void plan/ {in_plan = 1} in_plan && /int32_t preempted = 0, req;/ {print line; in_plan = 0}' docs/labs/5/starter.c >"$tmp/mine.c"
	run lab grade 5 "$tmp/mine.c" --json
	flat=$out
}
break_policy 'req = view_running_first(p); if (req >= 0) plan_run(p, req, 1000000);'
expect "a broken rule is told in words" holds "$flat" '.points == 0 and all(.tests[]; .message | test("step [0-9]+: policy mine scheduled more tokens than the request has"))'
break_policy 'nonsense'
expect "what does not compile is told with its line" holds "$flat" '.points == 0 and all(.tests[]; .message | test("it does not compile: line [0-9]+:"))'
sed '/^POLICY_PLUGIN/d' docs/labs/5/starter.c >"$tmp/mine.c"
run lab grade 5 "$tmp/mine.c" --json
expect "a file without a policy" holds "$out" '.points == 0 and (.tests[0].message | contains("policy.so exports no policy"))'
if [ -z "${LOCKSTEP_TEST_SHORT:-}" ]; then
	break_policy 'if (view_step(p) == 3) *(volatile int *)0 = 1;'
	expect "a crash is told" holds "$flat" '.points == 0 and all(.tests[]; .message | contains("step 3: policy mine crashed in plan() (SIGSEGV)"))'
	break_policy 'for (; view_step(p) == 3;) ;'
	expect "a loop is ended, and told" holds "$flat" '.points == 0 and all(.tests[]; .message | contains("step 3: policy mine did not come back from plan()"))'
fi

expect "no such lab" refused "there is no lab \"99\"" lab grade 99 "$tmp/wrong.json"
expect "no such lab to start" refused "there is no lab \"x\"" lab start x
expect "no such file" refused "No such file" lab grade 1 "$tmp/nothing.json"
expect "a folder for a file" refused "Is a directory" lab grade 1 "$tmp"
echo '{"a": ' >"$tmp/bad.json"
expect "no JSON" refused "bad.json" lab grade 1 "$tmp/bad.json"
expect "which lab?" refused "which lab?" lab start
expect "a word too many" refused "\"one\" is one too many" lab start 1 "$tmp/q" one

# A lab of one's own, as docs/labs/README.md has it.
mkdir "$tmp/mine"
sed -n '/^    {$/,/^    }$/s/^    //p' docs/labs/README.md >"$tmp/mine/grade.json"
echo "Batch size" >"$tmp/mine/README.md"
echo '{"p1": {"value": null, "because": ""}, "ttft": null, "batch": null}' >"$tmp/mine/starter.json"
run lab start "$tmp/mine" "$tmp/my-lab"
expect "a lab of one's own is started" test "$status" -eq 0 -a -e "$tmp/my-lab/answers.json"
run lab grade "$tmp/mine" "$tmp/my-lab/answers.json"
expect "and graded" test "$status" -eq 1 -a "$(tail -1 <<<"$out")" = "0 of 5 points"
own() { # a change of grade.json as a jq filter
	jq "$1" "$tmp/mine/grade.json" >"$tmp/g.json" && mkdir -p "$tmp/own" && cp "$tmp/mine/"*.json "$tmp/mine/README.md" "$tmp/own" &&
		mv "$tmp/g.json" "$tmp/own/grade.json"
}
echo '{"p1": {"value": 5, "because": "one two three four five"}, "ttft": 1, "batch": 4}' >"$tmp/a.json"
own '.tests[0].is.run = "two"'
expect "a lab with a run that is not there" refused 'there is no run "two"' lab grade "$tmp/own" "$tmp/a.json"
own '.tests[1].is.metric = "speed"'
expect "a metric that is not there" refused 'there is no such metric in its runs: "speed"' lab grade "$tmp/own" "$tmp/a.json"
# shellcheck disable=SC2016 # for the grader to expand
own '.runs.yours += " --seed ${what}"'
expect "a name that is not there" refused 'there is nothing called "what"' lab grade "$tmp/own" "$tmp/a.json"
own '.traces.hidden += " --nonsense"'
expect "a trace that cannot be made" refused "cannot be made" lab grade "$tmp/own" "$tmp/a.json"
own '.tests[0] |= del(.predict)'
expect "a test of no kind" refused "is of no known kind" lab grade "$tmp/own" "$tmp/a.json"
own 'del(.title)'
expect "a lab without a title" refused "it needs a title" lab grade "$tmp/own" "$tmp/a.json"
own '.runs.one = "replay --model nothing --device l4 --dataset-name sample:azure --json"'
run lab grade "$tmp/own" "$tmp/a.json"
expect "a run that fails says why" has "$(tr -s ' \n' ' ' <<<"$out")" 'run "one":'
own '.seconds = 0.05 | .runs.one = "replay --model llama-3.1-8b --device l4 --dataset-name random --num-prompts 4000000 --request-rate 1 --no-db --json"'
run lab grade "$tmp/own" "$tmp/a.json"
expect "a run that takes too long is ended" has "$(tr -s ' \n' ' ' <<<"$out")" 'run "one": took longer than the 0.05 s it may take'
expect "nothing is left behind" same "$(find "$tmp" -maxdepth 1 -name 'lockstep-lab-*')" ""
finish
