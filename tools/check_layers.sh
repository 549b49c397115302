#!/bin/sh
# check_layers.sh BUILD: each folder includes only what docs/architecture.md allows it, and the archives of core and
# policies call nothing but plain C: no clock, file, randomness, thread or CUDA symbol.
set -eu
build=$1
bad=0

allowed() {
	case $1 in
	core) echo core ;;
	policies) echo core policies ;;
	kernels) echo kernels ;;
	models) echo core models ;;
	sim) echo core models sim ;;
	exec) echo core models kernels exec ;;
	traces) echo core traces ;;
	analysis) echo core policies models traces sim exec analysis ;;
	cli) echo core policies models traces sim kernels exec analysis cli ;;
	esac
}

for layer in core kernels models policies sim exec traces analysis cli; do
	may=$(allowed "$layer" | tr ' ' '|')
	# Our own includes are in quotes and begin with a folder.
	if grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' --include='*.cc' \
		'^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$layer" | grep -vE "\"($may)/"; then
		echo "check-layers: $layer may only include $may" >&2
		bad=1
	fi
done

# What remains undefined must be memory, strings, formatting, arithmetic, what the compiler itself calls, or a symbol
# of the archive beside it.
calls='mem(cpy|move|set|cmp|chr)|str(len|n?cmp|n?cpy|r?chr|cspn|spn|str|tod|tol|toll|toul|toull|nlen)|v?snprintf|malloc|calloc|realloc|free|qsort|bsearch|abort|__assert_fail|__errno_location|__ctype_[a-z_]*|__stack_chk_fail|__v?snprintf_chk|__mem[a-z]*_chk|__stdio_common_vsprintf|_GLOBAL_OFFSET_TABLE_|__(start|stop)_[a-z_]*|sqrt|floor|ceil|fabs|__isnan|__isinf|__isoc(99|23)_str[a-z]*|(a|l|ll)abs|__popcount[a-z0-9]*|__(u?div|u?mod)ti[0-9]|__(float|fix)[a-z]*|__asan_.*|__ubsan_.*|__tsan_.*'
for layer in core policies; do
	defined=$(nm --defined-only -g "$build/lib/libcore.a" "$build/lib/libpolicies.a" 2>/dev/null | awk 'NF == 3 {print $3}' | sort -u)
	foreign=$(nm -u "$build/lib/lib$layer.a" 2>/dev/null | awk 'NF == 2 && $1 ~ /^[Uuvw]$/ {print $2}' | sort -u |
		grep -vE "^($calls)\$" | while read -r symbol; do
		echo "$defined" | grep -qxF "$symbol" || echo "$symbol"
	done)
	if [ -n "$foreign" ]; then
		echo "check-layers: $layer calls what it may not:" "$foreign" >&2
		bad=1
	fi
done

# Core and policies have no variables either: only constants (.rodata, or .data.rel.ro where they hold addresses).
for layer in core policies; do
	variables=$(objdump -t "$build/lib/lib$layer.a" 2>/dev/null |
		awk '/ O (\.data|\.bss|\.data\.[^r][^ \t]*|\.bss\.[^ \t]*|\*COM\*)[ \t]/ && $(NF - 1) !~ /^0+$/ {print $NF}' |
		grep -vE '^(__odr_asan|\.LASAN|__ubsan)' || true)
	if [ -n "$variables" ]; then
		echo "check-layers: $layer has variables of its own:" "$variables" >&2
		bad=1
	fi
done
[ "$bad" -eq 0 ] && echo "layers: fine"
exit "$bad"
