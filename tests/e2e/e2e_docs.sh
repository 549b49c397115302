#!/bin/bash
# Every command line in README.md and docs/ is run as it stands, in a folder of its own page; tests/docs/lines.tsv says what
# that takes, and which are left out and why. `e2e_docs.sh PAGE...` runs only those pages.
# shellcheck source=tests/support/e2e.sh
built=$(readlink -f "${LOCKSTEP:-build/lockstep}")
. "$(dirname "$0")/../support/e2e.sh"
table=tests/docs/lines.tsv
R=$PWD
export R
limit=${LOCKSTEP_TEST_SHORT:+180}
limit=${limit:-60} # seconds a line

# The program as it was built, which finds what lies beside it.
mkdir -p "$tmp/bin"
ln -s "$built" "$tmp/bin/lockstep"
PATH=$tmp/bin:$PATH
LOCKSTEP=$built
export LOCKSTEP
unset LC_ALL COLUMNS

# --- the table
kinds=() pages=() firsts=() seconds=() used=()
while IFS=$'\t' read -r kind page first second; do
	[[ $kind == '' || $kind == '#'* ]] && continue
	kinds+=("$kind") pages+=("$page") firsts+=("$first") seconds+=("$second") used+=(0)
done <"$table"

# Numbers of the table's lines of a kind for a page.
of_page() {
	local i
	for i in "${!kinds[@]}"; do
		# shellcheck disable=SC2053 # a pattern
		[[ ${kinds[i]} == "$1" && $2 == ${pages[i]} ]] && echo "$i"
	done
}

# --- one line

# Every option of a line that is not run is one that the command's help has.
options_exist() {
	local words=() help word n
	read -ra words <<<"${1#build/}"
	for ((n = 3; n >= 1; n--)); do
		help=$(lockstep help "${words[@]:1:n}" 2>/dev/null) && break
	done
	[ -n "$help" ] || { echo "    there is no such command"; return 1; }
	for word in "${words[@]}"; do
		word=${word#[} # of a synopsis
		word=${word%%[]=]*}
		[[ $word == --?* ]] || continue
		grep -qE -- "(^| )(--${word#--}|--${word#--no-})( |$|,|\.)" <<<"$help" || { echo "    no option $word"; return 1; }
	done
}

# A target of the Makefile, which is not made here.
target_exists() {
	local target=$1
	[[ $target == build/tests/* ]] && { [ -e "tests/unit/$(basename "$target").c" ]; return; }
	grep -qE "^$target:" Makefile
}

# runs LINE in folder $at, and it ends as wanted: its output is in $tmp/out, $tmp/stderr. `cd` lasts for the page.
runs() {
	if [[ $1 == "cd "* ]]; then
		[ -d "$at/${1#cd }" ] && at=$at/${1#cd }
		return
	fi
	if [[ $1 == make* && ! -e $at/Makefile && $1 != *" -C "* ]]; then
		local words=()
		read -ra words <<<"${1%%&&*}"
		[[ ${words[1]:-check} == *=* ]] || target_exists "${words[1]:-check}"
		return
	fi
	(cd "$at" && timeout "$limit" bash -o pipefail -c "$1" >"$tmp/out" 2>"$tmp/stderr" </dev/null)
	status=$?
	[ "$status" -eq "$want" ]
}

make_inputs() {
	local page=$1 line=$2 i
	for i in $(of_page file "$page"); do
		[[ " $line " == *[\ ,=]"${firsts[i]}"[\ ,]* ]] || continue
		used[i]=1
		[ -e "$at/${firsts[i]}" ] || (cd "$at" && bash -c "${seconds[i]}" >/dev/null) || echo "    cannot make ${firsts[i]}"
	done
}

# One line of a page.
check_line() {
	local page=$1 number=$2 line=$3 i want was=$SECONDS
	for i in $(of_page skip "$page"); do
		if [[ $line == *"${firsts[i]}"* ]]; then
			used[i]=1
			[[ $line == *lockstep* ]] && expect "$page:$number: its options exist: $line" options_exist "$line"
			return
		fi
	done
	for i in $(of_page use "$page"); do
		[[ $line == *"${firsts[i]}"* ]] || continue
		used[i]=1
		line=${line//"${firsts[i]}"/"${seconds[i]}"}
	done
	make_inputs "$page" "$line"
	: >"$tmp/out"
	: >"$tmp/stderr"
	want=0 status=0
	for i in $(of_page fails "$page"); do
		[[ $line == *"${firsts[i]}"* ]] || continue
		used[i]=1
		want=${seconds[i]}
	done
	if runs "$line"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "  FAILED $page:$number: $line"
		echo "    status ${status:-}; $(tail -3 "$tmp/stderr" | cut -c 1-300)"
	fi
	[ $((SECONDS - was)) -lt 8 ] || echo "  note: $page:$number took $((SECONDS - was)) s"
}

check_page() {
	local page=$1 at=$tmp/page i number line
	rm -rf "$at"
	mkdir -p "$at/build"
	ln -s "$built" "$at/build/lockstep"
	for i in docs traces specs; do ln -s "$R/$i" "$at/$i"; done
	cp "$tmp/base.db" "$at/lockstep.db"
	for i in $(of_page setup "$page"); do
		used[i]=1
		(cd "$at" && bash -c "${firsts[i]}" >"$tmp/out" 2>&1) || { echo "  FAILED $page: ${firsts[i]}"; tail -2 "$tmp/out"; failed=$((failed + 1)); }
	done
	while IFS=$'\t' read -r number line; do
		check_line "$page" "$number" "$line"
	done < <(awk -f tests/docs/extract.awk "$page")
}

# --- the extraction itself
extracted=$(awk -f tests/docs/extract.awk - <<'PAGE'
text lockstep no
    lockstep runs   # a comment: don't
    lockstep compare --a b \
        --c d
    lockstep replay: step 17: an error is no command
    not lockstep
```sh
$ build/lockstep show
make check
sqlite3 a.db "SELECT 'x'
  FROM runs"
```
```json
lockstep nothing
```
```
lockstep
```
PAGE
)
expect "lines are found in blocks, joined, numbered" same "$extracted" $'2\tlockstep runs   # a comment: don\'t
3\tlockstep compare --a b --c d
8\tbuild/lockstep show
9\tmake check
10\tsqlite3 a.db "SELECT \'x\' FROM runs"
17\tlockstep'
expect "an option that is not there is noticed" same "$(options_exist "lockstep trace info --nonsense x")" "    no option --nonsense"
expect "in a synopsis as well" same "$(options_exist "lockstep trace info [--json] [--nonsense=X] FILE")" "    no option --nonsense"
expect "those that are there pass" options_exist "build/lockstep trace info --json --on-bad-row=skip --no-json x"

# --- all pages
(cd "$tmp" && lockstep compare --policies naive,continuous,chunked,sglang --model llama-3.1-8b --device h100-sxm --num-prompts 300 \
	--replay-speedup 0.04 --record steps --db base.db --quiet "$R/traces/samples/azure_conv_sample.csv") || exit 1
printf '# Page\n\n    lockstep runs\n    lockstep runs --nonsense\n' >"$tmp/bad.md"
said=$(check_page "$tmp/bad.md")
expect "a line that errs is named with its place" has "$said" "FAILED $tmp/bad.md:4: lockstep runs --nonsense"
expect "and what it said" has "$said" "unknown option --nonsense"
expect "the one before is fine" test "$(grep -c FAILED <<<"$said")" -eq 1

if [ $# -gt 0 ]; then
	list=("$@")
else
	mapfile -t list < <(echo README.md; find docs -name '*.md' | LC_ALL=C sort)
fi
for page in "${list[@]}"; do
	check_page "$page"
done
if [ $# -eq 0 ]; then
	for i in "${!kinds[@]}"; do
		[ "${used[i]}" = 1 ] || echo "    $table: \"${kinds[i]} ${pages[i]} ${firsts[i]}\" is not needed any more"
		expect "$table: every line is needed" test "${used[i]}" = 1
	done
fi
finish
