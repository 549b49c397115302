#!/bin/bash
# lint.sh: everything that looks at the sources without running them. Every part runs; the status is bad if any found
# something.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=$(nproc)
bad=0
folders=(core kernels models policies sim exec traces analysis cli tests)
mapfile -t sources < <(find "${folders[@]}" -name '*.[ch]' | sort)
mapfile -t units < <(find core kernels models policies sim exec traces analysis cli -name '*.c' -not -path 'cli/mpi/*' | sort)
mapfile -t scripts < <(find tools tests .ci -name '*.sh' -o -path .ci/run)

part() {
	local what=$1
	shift
	if "$@"; then echo "$what: fine"; else
		echo "$what: see above"
		bad=1
	fi
}

tidy() {
	# shellcheck disable=SC2016 # expanded by the inner shell
	printf '%s\n' "${units[@]}" | xargs -P "$jobs" -n 4 sh -c 'clang-tidy --quiet "$@" -- -std=c17 -D_GNU_SOURCE -I. \
		-Ibuild/gen "-DLOCKSTEP_VERSION=\"0\"" -DISA=base -DISA_LANES=4 2>/dev/null' sh
}

part clang-format clang-format --dry-run -Werror "${sources[@]}"
part shellcheck shellcheck "${scripts[@]}"
part layers tools/check_layers.sh build
part cppcheck cppcheck --quiet -j "$jobs" --std=c11 --enable=warning,performance,portability --inline-suppr \
	--error-exitcode=1 --suppressions-list=tools/cppcheck.txt --library=posix -I . -D__GNUC__ -DISA=base -DISA_LANES=4 \
	"${units[@]}"
part clang-tidy tidy
exit "$bad"
