#!/bin/bash
# docs/adding.md, followed to the letter: its files are written where it says, its lines put where it says, its commands run.
built=${LOCKSTEP:-build/lockstep} # the objects lie beside it
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

page=docs/adding.md
B=$(dirname "$(readlink -f "$built")")
tree=$tmp/tree
mkdir -p "$tree"

# The box (indented lines) after the line $1 of the page, without its indentation.
box() {
	awk -v mark="$1" '$0 == mark {on = 1; next} on && /^    / {print substr($0, 5); seen = 1; next} on && seen && /^$/ {print; next} on && seen {exit}' "$page" |
		sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
}
mapfile -t files < <(sed -n 's/^<!-- file \(.*\) -->$/\1/p' "$page")
for file in "${files[@]}"; do
	mkdir -p "$tree/$(dirname "$file")"
	box "<!-- file $file -->" >"$tree/$file"
	expect "the page has $file" test -s "$tree/$file"
done

# The commands of part $1 (a heading), in the tree, with the program $2.
follow() {
	local commands
	commands=$(awk -v part="## $1" '/^## / {in_part = $0 == part} in_part' "$page" |
		awk '/^<!-- run -->$/ {on = 1; next} on && /^    / {print substr($0, 5); seen = 1; next} on && seen && !/^$/ {exit}')
	while IFS= read -r command; do
		[ -n "$command" ] || continue
		(cd "$tree" && eval "${command/#lockstep/$2}" >"$tmp/out" 2>"$tmp/stderr" </dev/null)
		status=$?
		out=$(cat "$tmp/out") err=$(cat "$tmp/stderr")
		expect "$1: $command" same "$status" 0
		said+=$out
	done <<<"$commands"
}
said=
follow "A device" "$LOCKSTEP"
expect "the device is told of by its title or file" has "$said" "my-card"
follow "A model" "$LOCKSTEP"
expect "the model is told of" has "$said" "my-model"

# What is compiled: only what the page changes, then linked with everything else as it was built.
if [ -n "${LOCKSTEP_TEST_SHORT:-}" ] || [ ! -e "$B/lib/libcli.a" ]; then
	skip "policies and trace formats are compiled in the plain build alone"
	finish
fi
link() { # program, objects
	${CC:-cc} -fno-lto -rdynamic -o "$@" "$B/obj/cli/main.o" -Wl,--start-group "$B"/lib/lib{cli,analysis,sim,exec,kernels,models,core,traces}.a \
		-Wl,--whole-archive "$B/lib/libpolicies.a" -Wl,--no-whole-archive -Wl,--end-group -lsqlite3 -ljansson -lz -lm -ldl -lpthread
}
compile() { # object, source, include folders first
	${CC:-cc} -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -ffp-contract=off -DLOCKSTEP_VERSION='"0.1.0"' \
		"${@:3}" -c -o "$1" "$2"
}
expect "the policy compiles without a warning" compile "$tmp/shortest.o" "$tree/policies/shortest.c" -I.
expect "and is linked" link "$tmp/with-policy" "$tmp/shortest.o"
said=
follow "A policy" "$tmp/with-policy"
expect "it is listed" has "$said" "the prompt with the fewest tokens left is let in first"
expect "and sound" has "$said" " 0 failed"

cp traces/*.[ch] "$tree/traces"
cp -r traces/samples "$tree/traces"
while IFS= read -r line; do
	read -r _ _ target _ <<<"$line"
	before=${line#* before \"}
	before=${before%\" -->}
	box "$line" >"$tmp/lines"
	awk -v before="$before" -v lines="$tmp/lines" 'index($0, before) == 1 && !done {while ((getline l < lines) > 0) print l; done = 1} 1' "$tree/$target" >"$tmp/new"
	expect "lines go into $target" test "$(wc -l <"$tmp/new")" -gt "$(wc -l <"$tree/$target")"
	mv "$tmp/new" "$tree/$target"
done < <(grep '^<!-- insert ' "$page")
objects=()
for source in "$tree"/traces/*.c cli/trace_opts.c; do
	object=$tmp/$(basename "$source" .c).o
	compile "$object" "$source" -O0 -I"$tree" -I. || expect "$source compiles without a warning" false
	objects+=("$object")
done
expect "the format is linked" link "$tmp/with-format" "${objects[@]}"
said=
follow "A trace format" "$tmp/with-format"
expect "the file is recognised" has "$said" "gateway"
expect "with its requests" has "$said" "4"
finish
