#!/bin/bash
# Help, manual pages, completion, and what happens to mistyped commands and options.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

has_all() {
	local word
	while read -r word; do has "$1" "$word" || return 1; done <<<"$2"
}

run --version
expect "version on stdout" same "$status" 0
expect "version is a number" grep -qE '^lockstep [0-9]+\.[0-9]+\.[0-9]+' <<<"$out"
run --help
expect "overview succeeds" same "$status" 0
overview=$out
run
expect "nothing typed is an error that shows the overview" same "$status" 2

# What a page's rules are broken by, as far as the programs are there that know them. Pages have no date: the same program
# writes the same page.
complaints() {
	{ MANWIDTH=80 LC_ALL=C.UTF-8 man --warnings -l "$1" >/dev/null; } 2>&1
	if command -v mandoc >/dev/null; then mandoc -Tlint -W warning "$1" | grep -v 'missing date'; fi
}

mapfile -t commands < <("$LOCKSTEP" help --list)
expect "the table has all commands" test "${#commands[@]}" -ge 11
for c in "${commands[@]}"; do
	read -ra words <<<"$c"
	expect "overview lists $c" has "$overview" "  $c"
	run "${words[@]}" --help
	expect "$c --help succeeds on stdout" test "$status" -eq 0 -a -z "$err" -a -n "$out"
	expect "$c --help says how to call it" has "$out" "Usage: lockstep $c"
	expect "$c --help fits 80 columns" test "$(grep -v '^lockstep\|^ *lockstep\|^#\|^Usage\|^    --' <<<"$out" | awk 'length > 80' | wc -l)" -eq 0
	help=$out
	run help "${words[@]}"
	expect "help $c is the same" same "$out" "$help"
	run help --man "${words[@]}"
	echo "$out" >"$tmp/page.1"
	expect "the manual page of $c renders without a warning" same "$(complaints "$tmp/page.1")" ""
	expect "it has every option" has_all "$out" "$(grep -oE -- '^ +(-[a-z], )?--[a-z-]+' <<<"$help" | grep -oE -- '--[a-z-]+' | sed 's/-/\\-/g')"
	expect "$c refuses an unknown option" refused "unknown option --zzz" "${words[@]}" --zzz
done
run help --man
echo "$out" >"$tmp/page.1"
expect "the manual page of lockstep renders without a warning" same "$(complaints "$tmp/page.1")" ""
for c in "${commands[@]}"; do expect "it leads to that of $c" has "$out" ".BR lockstep\\-${c// /\\-} (1)"; done

expect "a mistyped command" refused "did you mean replay?" repaly
expect "a mistyped second word" refused "did you mean trace info?" trace inof
expect "a mistyped option" refused "did you mean --max-num-seqs?" replay --max-num-seq 5
expect "help about nothing" refused "there is no command" help nonsense
run trace
expect "a first word alone lists the group" test "$status" -eq 2
expect "and names its commands" has "$err" "trace convert"
run trace --help
expect "the group's help" test "$status" -eq 0 -a -z "$err"

"$LOCKSTEP" help --completion >"$tmp/completion"
expect "the completion script is correct shell" bash -n "$tmp/completion"
expect "the completion script is clean" shellcheck -s bash "$tmp/completion"

# What completing the last of the given words offers.
complete_words() {
	bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep; echo " ${COMPREPLY[*]} "' _ \
		"$tmp/completion" "$@"
}
expect "completes commands" has "$(complete_words lockstep re)" " replay "
expect "completes second words" has "$(complete_words lockstep trace '')" " convert "
expect "completes options" has "$(complete_words lockstep replay --max-num-s)" " --max-num-seqs "
expect "completes options of two-word commands" has "$(complete_words lockstep trace info --on)" " --on-bad-row "
expect "completes options of three-word commands" has "$(complete_words lockstep trace generate agentic --bra)" " --branches "
expect "completes known values" same "$(complete_words lockstep replay --scheduling-policy p)" " priority "

run policies
expect "policies are listed" test "$status" -eq 0
for p in static orca vllm_v1 vllm_v0 sarathi trtllm sglang random; do expect "$p is there" grep -q "^$p" <<<"$out"; done
for p in naive continuous chunked; do expect "$p is told of" grep -q ", also called $p" <<<"$out"; done
run policies --json
expect "policies as JSON" holds "$out" '.policies | length >= 3 and all(.name and .help and (.parameters | type == "array") and (.aliases | type == "array"))'
while read -r name; do
	expect "docs/policies.md tells of $name" grep -q "$name" docs/policies.md
done < <(jq -r '.policies[] | .name, .parameters[].name' <<<"$out")
run policies chunked
expect "one policy with its story" has "$out" "vLLM"
expect "an unknown policy" refused "did you mean chunked?" policies chunkd
if [ -w /dev/full ]; then
	"$LOCKSTEP" --help >/dev/full 2>"$tmp/stderr"
	expect "a full disk under the output is an error" test $? -eq 1
	expect "and says so" grep -q "cannot write the output" "$tmp/stderr"
fi
finish
