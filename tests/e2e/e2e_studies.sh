#!/bin/bash
# The studies, in short: that they run from beginning to end and write what they say. And their statistics, by hand.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
stats=(awk -f tools/study/stats.awk)
export STUDY_SHORT=1 STUDY_WORK=$tmp/work

# Ratios 2, 4 and 8 of pairs: 4, times or by exp(4.303 s / sqrt 3) with s = log 2.
printf 'arm\tseed\tx\ty\na\t1\t10\t1\nb\t1\t20\t1\na\t2\t5\t1\nb\t2\t20\t1\na\t3\t1\t1\nb\t3\t8\t\nc\t1\t3\t0.5\n' >"$tmp/rows.tsv"
expect "a ratio and its interval" same "$("${stats[@]}" -v mode=say -v key=x -v pair="a>b" -v more=1 "$tmp/rows.tsv")" "4.00 (0.715 to 22.4) times, no significant difference"
expect "the other way round" same "$("${stats[@]}" -v mode=say -v key=x -v pair="a>b" "$tmp/rows.tsv")" "0.250 (0.045 to 1.399) times, no significant difference"
expect "pairs without a figure are left out" same "$("${stats[@]}" -v mode=say -v key=y -v pair="a>b" "$tmp/rows.tsv")" "1.000 (1.000 to 1.000) times, no significant difference"
expect "a mean" same "$("${stats[@]}" -v mode=mean -v key=x -v arm=b "$tmp/rows.tsv")" "16.0"
expect "a table" same "$("${stats[@]}" -v mode=table -v base=a -v arms="a=first|c=third" -v cols="x ratio=times|y percent=y" "$tmp/rows.tsv" | tail -2)" \
	"| first | 1 | 100.0 % |
| third | 0.300 (0.300 to 0.300) | 50.0 % |"

# Whatever time was measured, the pages have a figure wherever they promise one, and charts beside them.
for page in branching workshop; do
	tools/study/$page.sh "$LOCKSTEP" "$tmp/pages" 2>"$tmp/said" </dev/null
	expect "$page: is written" test $? -eq 0 -a -s "$tmp/pages/$page.md"
	expect "$page: no figure is missing" test -z "$(grep -v '^    ' "$tmp/pages/$page.md" | grep -wE '\(not measured\)|nan|inf|\(-')"
	expect "$page: no machine's path is in it" test -z "$(grep -n "$tmp" "$tmp/pages/$page.md")"
	for chart in $(grep -o '([a-z-]*\.svg)' "$tmp/pages/$page.md" | tr -d '()'); do
		expect "$page: $chart is there" test -n "$(grep '</svg>' "$tmp/pages/$chart")"
	done
	[ $page = workshop ] || continue
	n=$(find "$STUDY_WORK/runs" -type f | wc -l)
	cp "$tmp/pages/$page.md" "$tmp/before.md"
	tools/study/$page.sh "$LOCKSTEP" "$tmp/pages" 2>"$tmp/said" </dev/null
	expect "$page: a second time nothing is run, and the page is the same" test "$(find "$STUDY_WORK/runs" -type f | wc -l)" -eq "$n" -a \
		-z "$(cmp "$tmp/before.md" "$tmp/pages/$page.md" 2>&1)"
done
finish
