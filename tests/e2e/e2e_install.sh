#!/bin/bash
# make install into an empty folder, what it leaves there, and make uninstall.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
root=$tmp/root
out=$(make --no-print-directory install DESTDIR="$root" PREFIX=/usr 2>&1)
status=$?
expect "installs" test "$status" -eq 0
expect "the program runs from there" "$root/usr/bin/lockstep" --version
expect "lockstep(1)" test -s "$root/usr/share/man/man1/lockstep.1"
while read -r name; do
	expect "a manual page of $name" test -s "$root/usr/share/man/man1/lockstep-${name// /-}.1"
done < <("$LOCKSTEP" help --list)
expect "man finds them" has "$(MANPATH=$root/usr/share/man LC_ALL=C man -w lockstep-trace-info 2>&1)" lockstep-trace-info.1
expect "completion" bash -n "$root/usr/share/bash-completion/completions/lockstep"
expect "documentation" test -s "$root/usr/share/doc/lockstep/README.md"
expect "sample traces" test -n "$(ls "$root/usr/share/lockstep/samples")"
sample=$(find "$root/usr/share/lockstep/samples" -name '*.csv' | head -1)
(cd "$tmp" && "$root/usr/bin/lockstep" replay "$sample" --model llama-3.1-8b --device h100-sxm --quiet)
expect "the installed program serves the installed sample" test $? -eq 0
(cd "$tmp" && "$root/usr/bin/lockstep" policy new mine && env -u LOCKSTEP make -s -C mine && "$root/usr/bin/lockstep" policy check mine/mine.so --seconds 0) \
	>"$tmp/policy.out" 2>&1
status=$? out=$(cat "$tmp/policy.out")
expect "a policy is built with the installed headers" test "$status" -eq 0
expect "which are not those of the source tree" same "$("$root/usr/bin/lockstep" policy headers)" "-I$root/usr/include/lockstep"
make --no-print-directory uninstall DESTDIR="$root" PREFIX=/usr >/dev/null 2>&1
expect "uninstall leaves no file" same "$(find "$root" -type f)" ""
finish
