#!/bin/sh
# quickstart.sh LOCKSTEP TRACE: three policies on the bundled trace, and what to type next.
set -eu
lockstep=$1 trace=$2
set -x
"$lockstep" compare --dataset-path "$trace" --model llama-3.1-8b --device h100-sxm \
	--policies naive,continuous,chunked --db lockstep.db
{ set +x; } 2>/dev/null
cat <<END

The runs are in lockstep.db: try
  $lockstep runs
  $lockstep replay $trace --model llama-3.1-8b --device l4 --policy chunked
  $lockstep trace info $trace
  $lockstep policies
  $lockstep compare --help
END
