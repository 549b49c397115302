#!/bin/sh
# man_pages.sh LOCKSTEP DIR: writes the manual page of every command into DIR.
set -eu
lockstep=$1 dir=$2
"$lockstep" help --man >"$dir/lockstep.1"
"$lockstep" help --list | while read -r name; do
	# shellcheck disable=SC2086 # "trace info" is two words
	"$lockstep" help --man $name >"$dir/lockstep-$(echo "$name" | tr ' ' '-').1"
done
