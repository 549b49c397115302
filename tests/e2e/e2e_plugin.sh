#!/bin/bash
# Policies of one's own: written, built, checked, run on both backends, and what becomes of those that crash.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
root=$PWD
export LOCKSTEP_INCLUDE=$root
cc=${CC:-cc}
command -v "$cc" >/dev/null || cc=gcc
serve=(--cost-model "linear:a=5ms,b=20us,c=100us,d=10ns" --num-gpu-blocks-override 300 --dataset-name sample:azure --num-prompts 150)
rogue=$tmp/rogue.so
"$cc" -std=c17 -D_GNU_SOURCE -O1 -fPIC -shared -I. -o "$rogue" tests/plugins/rogue.c || exit 1
runs() { sqlite3 "$1" "$2"; }
whole() { [ "$(sqlite3 "$1" 'PRAGMA integrity_check')" = ok ]; }

# --- new, make, check ---------------------------------------------------------------------------------------------
cd "$tmp" || exit 1
run policy new mine
expect "new writes two files" test -f mine/mine.c -a -f mine/Makefile
expect "new says what to do next" has "$out" "make -C mine"
expect "nothing is overwritten" refused "is there already: nothing is overwritten" policy new mine
expect "a name that is taken" refused "a policy called \"orca\" is built in" policy new orca
expect "a name that is none" refused "cannot be a policy's name" policy new 7up
expect "a folder that cannot be made" refused "cannot be made" policy new fine --dir "$tmp/no/such/folder"
expect "a keyword" refused "is a word of C" policy new while
run policy new other --dir "$tmp/elsewhere"
expect "--dir says where" test "$status" -eq 0
expect "the other's file" test -f elsewhere/other.c
expect "its Makefile builds it" make -s -C mine CC="$cc" CFLAGS="-O2 -Werror"
command -v clang >/dev/null && expect "clang as well" make -s -C elsewhere CC=clang CFLAGS="-O2 -Werror -Wpedantic"
run policy check mine/mine.so --seconds 0 --json
expect "the policy that new writes is sound" test "$status" -eq 0
expect "every check passes" holds "$out" '.failed == 0 and .warned == 0 and .passed == 13 and (.decisions | length) == 16'
golden=$(jq -r .decisions <<<"$out")
run policy check mine/mine.so --only golden --golden "$golden"
expect "the same build decides the same" test "$status" -eq 0
sed 's/budget \* m->prompt_share/budget * m->prompt_share \/ 2/' mine/mine.c >half.c
"$cc" -std=c17 -O2 -fPIC -shared "$("$LOCKSTEP" policy headers)" -o half.so half.c
run policy check half.so --only golden --golden "$golden"
expect "another one does not" test "$status" -eq 1
expect "and it is said" has "$out" "it decides otherwise"
run policy show ./mine/mine.so
expect "show tells its parameters" has "$out" "prompt_share=1  (number, 0.01 to 1)"
run policy show --json ./mine/mine.so
expect "and its file" holds "$out" '.policies[0] | .name == "mine" and (.path | endswith("/mine/mine.so")) and (.digest | length) == 16'
expect "list is that of policies" same "$("$LOCKSTEP" policy list)" "$("$LOCKSTEP" policies)"

# --- run it -------------------------------------------------------------------------------------------------------
run replay --policy ./mine/mine.so:prompt_share=0.5 "${serve[@]}" --db a.db --json
expect "replay serves with it" holds "$out" '.completed == 150 and .policy == "mine" and .policy_params == "prompt_share=0.5,spare_blocks=0"'
expect "its label is its name" holds "$out" '.label == "mine"'
expect "path and digest are stored" same "$(runs a.db 'SELECT policy_path, length(policy_digest) FROM runs')" "$tmp/mine/mine.so|16"
run decisions --db a.db latest
expect "a stored run is made again" test "$status" -eq 0
cd / && run decisions --db "$tmp/a.db" latest
expect "from any folder" test "$status" -eq 0
cd "$tmp" || exit 1
run compare --policies "vllm_v1,./mine/mine.so,$tmp/half.so" "${serve[@]}" --db a.db --json
expect "compare runs it beside others" holds "$out" '[.runs[].label] == ["vllm_v1", "mine", "'"$tmp"'/half.so"]'
expect "one that is like vllm_v1 serves like it" holds "$out" '.runs[0].duration > 0 and .runs[1].completed == 150'
run decisions --db a.db 3
expect "an arm of a comparison is made again" test "$status" -eq 0
run compare --policies ./mine/mine.so --max-num-seqs 4,64 "${serve[@]}" --no-db --json
expect "lists go with it" holds "$out" '[.runs[].label] == ["max-num-seqs=4", "max-num-seqs=64"]'
run slo --policies ./mine/mine.so "${serve[@]}" --goodput ttft:4000 --no-db --json
expect "slo takes it" test "$status" -eq 0
mv mine/mine.so moved.so
run decisions --db a.db 1
expect "a plug-in that is gone is missed" test "$status" -eq 2
expect "and said which" has "$err" "run 1 was served by a plug-in: policy $tmp/mine/mine.so cannot be opened"
cp half.so mine/mine.so
run decisions --db a.db 1
expect "one that has changed is refused" test "$status" -eq 2
expect "with both digests" has "$err" "has changed since (its digest is"
mv moved.so mine/mine.so
run decisions --db a.db 1
expect "as it was it is taken again" test "$status" -eq 0
run replay --policy ./mine/mine.so:prompt_share=2 "${serve[@]}" --no-db
expect "parameters are checked" has "$err" "prompt_share=\"2\": expected a number from 0.01 to 1"

# --- experiments --------------------------------------------------------------------------------------------------
cp mine/mine.so point.so
jq -n '{name: "own", base: {"dataset-name": "sample:azure", "num-prompts": 50, "cost-model": "constant:10ms",
	"num-gpu-blocks-override": 200}, grid: {policy: ["vllm_v1", "./point.so", "./point.so:prompt_share=0.5"]}}' >own.json
run sweep own.json --db s.db -q
expect "points of a sweep are served by it" same "$(runs s.db "SELECT group_concat(policy, ' ') FROM (SELECT policy FROM runs WHERE status = 'complete' ORDER BY policy)")" "mine mine vllm_v1"
run sweep own.json --db s.db -q
expect "which are known when they are done" same "$(runs s.db 'SELECT count(*) FROM runs')" 3
cp half.so point.so
run sweep own.json --db s.db -q
expect "as long as the file is what it was" same "$(runs s.db 'SELECT count(*) FROM runs')" 5
jq '.grid = {policy: ["vllm_v1", "'"$rogue"':how=segv", "'"$rogue"':how=abort"]}' own.json >bad.json
run sweep bad.json --db s.db -q
expect "a point that crashes fails" test "$status" -eq 1
expect "and says why" has "$(runs s.db "SELECT group_concat(status_text) FROM sweep_points WHERE status = 'failed'")" "step 3: policy rogue crashed in plan() (SIGSEGV)"

# --- on kernels ---------------------------------------------------------------------------------------------------
tiny=(--backend cpu --model stories-260k --threads 2 --dataset-name random --random-input-len 24 --random-output-len 6
	--num-prompts 6 --kv-cache-memory-bytes 4000000)
run replay --policy ./mine/mine.so "${tiny[@]}" --db b.db --json
expect "the same file runs on kernels" holds "$out" '.completed == 6 and .backend == "cpu"'
run replay --run latest --db b.db --json
expect "and from their recording" holds "$out" '.completed == 6 and .backend == "replay"'
run replay --policy "$rogue:how=segv" "${tiny[@]}" --db b.db
expect "a crash there ends the run as well" test "$status" -eq 1
expect "by its name" has "$err" "step 3: policy rogue crashed in plan() (SIGSEGV)"
expect "with the database whole" whole b.db

# --- containment --------------------------------------------------------------------------------------------------
export LOCKSTEP_POLICY_SECONDS=0.1
bad() { # HOW TEXT: status 1, named, stored as failed, database whole
	rm -f c.db
	run replay --policy "$rogue:how=$1" "${serve[@]}" --db c.db -q
	[ "$status" -eq 1 ] && has "$err" "$2" && whole c.db &&
		same "$(runs c.db 'SELECT run_id, status, status_text FROM runs')" "1|failed|$2"
}
expect "a bad pointer" bad segv "step 3: policy rogue crashed in plan() (SIGSEGV)"
expect "a division by zero" bad fpe "step 3: policy rogue crashed in plan() (SIGFPE)"
expect "a jump to nowhere" bad jump "step 3: policy rogue crashed in plan() (SIGSEGV)"
expect "abort()" bad abort "step 3: policy rogue crashed in plan() (SIGABRT)"
expect "exit(0)" bad exit "step 3: policy rogue called exit() in plan()"
expect "nothing, for ever" bad idle "step 3: policy rogue planned nothing in 10,000,000 rounds in a row"
expect "a loop without end" bad loop "step 3: policy rogue did not come back from plan() within 0.1 s"
expect "sleeping for ever" bad sleep "step 3: policy rogue does not come back from plan()"
expect "what it cannot do" bad bad_call "step 3: policy rogue ran a request that is not running (request none)"
expect "giving up" bad fail "step 3: policy rogue lost count"
expect "a crash when all is over" bad segv,where=destroy "policy rogue crashed in destroy() (SIGSEGV), after the run's last step"
if ! nm "$LOCKSTEP" 2>/dev/null | grep -qE '__(asan|tsan)_init'; then
	expect "a stack that runs over" bad stack "step 3: policy rogue crashed in plan() (SIGSEGV)"
	expect "memory freed twice" bad twice "step 3: policy rogue crashed in plan() (SIGABRT)"
	rm -f c.db
	run replay --policy "$rogue:how=smash" "${serve[@]}" --db c.db -q
	expect "a heap that is written over" test "$status" -eq 1
	expect "is not forgiven" has "$err" "policy rogue"
	expect "and leaves the database whole" whole c.db
	expect "with a failed run" same "$(runs c.db 'SELECT status FROM runs')" failed
else
	skip "stacks and heaps: the sanitizer has its own words"
fi
rm -f c.db
run compare --policies "$rogue:how=segv,vllm_v1" "${serve[@]}" --db c.db --json
expect "the others of a comparison are run" same "$(runs c.db 'SELECT policy, status FROM runs')" $'rogue|failed\nvllm_v1|complete'
run runs show --db c.db latest
expect "latest is the last" has "$out" vllm_v1
unset LOCKSTEP_POLICY_SECONDS

# --- check finds what is wrong ------------------------------------------------------------------------------------
for f in cheat static_state steady_lie passes_by; do
	"$cc" -std=c17 -D_GNU_SOURCE -O1 -fPIC -shared -I"$root" -o $f.so "$root/tests/plugins/$f.c"
done
finds() { # FILE CHECK TEXT
	run policy check "$1" --only "$2" --seconds 1 --json
	[ "$status" -eq 1 ] && holds "$out" '.checks[0] | .verdict == "failed" and (.text | contains("'"$3"'"))'
}
expect "a crash" finds "$rogue:how=segv" memory "step 3: policy rogue crashed in plan() (SIGSEGV)"
expect "an abort" finds "$rogue:how=abort" limits "step 3: policy rogue crashed in plan() (SIGABRT)"
expect "one that plans nothing any more" finds "$rogue:how=idle" memory "it plans nothing, again and again"
expect "state kept in static variables" finds static_state.so repeat "run twice, it decides otherwise"
expect "who reads the future" finds cheat.so lengths "it knows how long an answer will become"
expect "a trait that is not true" finds steady_lie.so walks "is the trait"
run policy check passes_by.so --only starvation --json
expect "a warning is no failure" test "$status" -eq 0
expect "who lets a large request starve" holds "$out" '.warned == 1 and (.checks[0].text | contains("it would starve"))'
run policy check "$rogue:how=bad_call" --only memory --seconds 1 --dir "$tmp" --json
expect "the small case is a trace" test -s "$tmp/rogue-memory.jsonl"
expect "of a request or two" test "$(wc -l <"$tmp/rogue-memory.jsonl")" -le 2
replay=$(jq -r '.checks[0].replay' <<<"$out")
found=$(jq -r '.checks[0].text' <<<"$out")
err=$(eval "${replay/#lockstep/$LOCKSTEP}" 2>&1 >/dev/null)
expect "its replay fails as the check did" has "$err" "$found"
again=$(jq -r '.checks[0].again' <<<"$out")
out=$(eval "${again/#lockstep/$LOCKSTEP}" 2>/dev/null)
expect "and so does the check once more" has "$out" "ran a request that is not running"
expect "a check that does not exist" refused "there is no check \"memories\"" policy check vllm_v1 --only memories
expect "no policy at all" refused "which policy?" policy check
expect "a file that is none" refused "is no policy that can be loaded" policy check "$root/tests/plugins/rogue.c"
run policy check --list
expect "the checks are listed" lines "$out" 13
run policy check orca --seconds 0
expect "built-in policies can be checked" test "$status" -eq 0

# --- headers ------------------------------------------------------------------------------------------------------
run policy headers
expect "headers names the folder" same "$out" "-I$root"
LOCKSTEP_INCLUDE=$tmp/nowhere run policy headers
expect "a folder without them is refused" test "$status" -eq 2
mkdir -p old/core old/policies && touch old/policies/walk.h && echo '#define POLICY_ABI 999' >old/core/policy.h
LOCKSTEP_INCLUDE=$tmp/old run policy headers
expect "headers of another version are" has "$err" "is of version 999 of the interface"
unset LOCKSTEP_INCLUDE
run policy headers
expect "a program without headers says so" has "$err" "make install"
# All that the headers declare can be linked with.
exported=$(nm -D --defined-only "$LOCKSTEP" | awk '{print $3}')
missing=
while read -r f; do
	grep -qx "$f" <<<"$exported" || missing="$missing $f"
done < <(sed -n 's/^[a-z].*[ *]\(\(view\|plan\|walk\|mem\|err\|rng\)_[a-z_0-9]*\)(.*/\1/p; s/^\(view_[a-z_]*\)(.*/\1/p' \
	"$root"/core/{policy,err,mem,rng}.h "$root/policies/walk.h" | grep -v '^err_no_memory$' | sort -u)
expect "every function of the headers is exported" same "$missing" ""
finish
