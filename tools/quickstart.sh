#!/bin/sh
# quickstart.sh LOCKSTEP TRACE: three policies on the bundled trace, a page that shows them, and what to type next.
set -eu
lockstep=$1 trace=$2
said=$(mktemp)
trap 'rm -f "$said"' EXIT
set -x
"$lockstep" compare --dataset-path "$trace" --model llama-3.1-8b --device h100-sxm \
	--policies naive,continuous,chunked --record steps --db lockstep.db >"$said"
{ set +x; } 2>/dev/null
cat "$said"
# Three more runs each time: these are the last ones.
runs=$(sed -n 's/^Stored as runs \([0-9]*\) to \([0-9]*\) in .*/\1-\2/p' "$said")
page=
echo
if "$lockstep" report --db lockstep.db -o report.html "$runs"; then page="$PWD/report.html"; fi
cat <<END

${page:+The report is in $page: open it in a browser.
}The runs are in lockstep.db: try
  $lockstep runs
  $lockstep replay $trace --model llama-3.1-8b --device l4 --policy chunked
  $lockstep report latest
  $lockstep trace info $trace
  $lockstep policies
  $lockstep compare --help
END
