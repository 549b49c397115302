#!/bin/sh
# packages.sh build|test|lint|bench|studies...: installs the Debian or Ubuntu packages of these groups that are missing. Asks
# dpkg for each, and calls apt only when one is not there. "a|b" is satisfied by either; the first is installed. "a?" is
# wanted but not needed: where the distribution has no such package, things go on without it.
set -eu

group() {
	case $1 in
	build) echo "gcc g++ libc6-dev make libsqlite3-dev libjansson-dev libcurl4-openssl-dev|libcurl4-gnutls-dev|libcurl4-nss-dev zlib1g-dev libdnnl-dev? libsentencepiece-dev? libjs-vega?" ;;
	test) echo "libcunit1-dev clang valgrind jq sqlite3 man-db groff-base shellcheck chromium? python3-pandas? libopenmpi-dev? openmpi-bin?" ;;
	lint) echo "clang-format clang-tidy cppcheck shellcheck libcunit1-dev" ;;
	studies) echo "jq gawk|mawk|original-awk" ;;
	bench) echo "libcunit1-dev" ;;
	*)
		echo "packages.sh: there is no group $1" >&2
		exit 2
		;;
	esac
}

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
	echo "This is neither Debian nor Ubuntu: please see to it that a C compiler, make and the development files of" \
		"SQLite, jansson, libcurl and zlib (better also oneDNN, SentencePiece and Vega's JavaScript; tests: CUnit, clang, valgrind, jq," \
		"sqlite3) are there." >&2
	exit 0
fi

missing=
wanted=
for g in "$@"; do
	for p in $(group "$g"); do
		found=
		for one in $(echo "${p%\?}" | tr '|' ' '); do
			if installed "$one"; then found=1; fi
		done
		[ -z "$found" ] || continue
		case $p in
		*\?) wanted="$wanted ${p%\?}" ;;
		*) missing="$missing ${p%%|*}" ;;
		esac
	done
done
[ -n "$missing$wanted" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		[ -n "$missing" ] || exit 0
		echo "These packages are missing, and there is no sudo to install them: as root, run" >&2
		echo "  apt-get install$missing$wanted" >&2
		exit 1
	fi
	as_root=sudo
fi
# What is only wanted was perhaps looked for in vain before: the lists are not fetched again for its sake.
if [ -n "$missing" ] || ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
	$as_root apt-get update -qq
fi
for p in $wanted; do
	if apt-cache show "$p" >/dev/null 2>&1; then missing="$missing $p"; fi
done
[ -n "$missing" ] || exit 0
echo "Installing:$missing"
# shellcheck disable=SC2086 # several words on purpose
$as_root env DEBIAN_FRONTEND=noninteractive sh -c '
	apt-get install -qq -y --no-install-recommends "$@" >/dev/null' sh $missing
