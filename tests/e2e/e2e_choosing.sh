#!/bin/bash
# docs/choosing.md: its figures are what its commands give, and every advice follows from them.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

if ! command -v python3 >/dev/null; then
	skip "no Python"
	finish
fi
page=docs/choosing.md
if [ -n "${LOCKSTEP_TEST_SHORT:-}" ]; then
	page=$tmp/short.md
	sed '/^## Memory/,$d' docs/choosing.md >"$page"
fi
out=$(python3 tools/choosing.py "$LOCKSTEP" "$page" --check 2>&1)
status=$?
expect "the page has the figures of its runs" same "$status" 0
# That this can fail: a figure and an advice that are wrong.
sed '0,/| chunked | 2,000 /s//| chunked | 1,999 /; 0,/< 0.01 naive/s//< 0.00001 naive/; /^## Memory/,$d' docs/choosing.md >"$tmp/wrong.md"
out=$(python3 tools/choosing.py "$LOCKSTEP" "$tmp/wrong.md" --check 2>&1)
expect "a wrong figure is found" has "$out" "the page says | chunked | 1,999 "
expect "an advice that does not follow is found" has "$out" "does not hold any more: chunked mean_ttft_ms < 0.00001 naive"
expect "every section gives advice that is checked" same "$(grep -c '^<!-- figures' docs/choosing.md)" "$(grep -c '^<!-- end' docs/choosing.md)"
finish
