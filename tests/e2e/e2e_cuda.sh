#!/bin/bash
# What --backend cuda says where it cannot run, and that everything else runs beside it.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

model=(--model llama-110m --weights random:1)
trace=(--dataset-path traces/samples/azure_conv_sample.csv --num-prompts 2 --no-db)

run --version
expect "--version tells the backends" has "$out" "backends: sim, cpu, replay"
if [ -e "$tmp/lockstep-cuda.so" ]; then
	expect "and cuda, with what it was built for" grep -qE 'backends: .*cuda \(CUDA [0-9.]+: sm_80, sm_90' <<<"$out"
else
	expect "and why not cuda" has "$out" "no cuda: this build has no CUDA plug-in"
fi

# A folder of its own, so that no plug-in is beside it.
mkdir -p "$tmp/bare/bin"
cp "$LOCKSTEP" "$tmp/bare/bin/lockstep"
built=$LOCKSTEP
LOCKSTEP=$tmp/bare/bin/lockstep
expect "no plug-in: one line, status 2" refused "this build has no CUDA plug-in" replay --backend cuda "${model[@]}" \
	"${trace[@]}" --policy chunked
expect "generate says the same" refused "this build has no CUDA plug-in" generate --backend cuda --model llama-110m \
	--prompt-ids 1
expect "profile says the same" refused "this build has no CUDA plug-in" profile --backend cuda --model llama-110m --no-db
echo "not a library" >"$tmp/bare/bin/lockstep-cuda.so"
expect "a broken plug-in: one line, status 2" refused "the CUDA plug-in cannot be loaded" replay --backend cuda \
	"${model[@]}" "${trace[@]}"
printf 'int lockstep_cuda_plugin[64] = {-1};\n' >"$tmp/other.c"
if "${CC:-cc}" -shared -fPIC -o "$tmp/bare/bin/lockstep-cuda.so" "$tmp/other.c" 2>/dev/null; then
	expect "another version's plug-in" refused "belongs to another version of the program" replay --backend cuda \
		"${model[@]}" "${trace[@]}"
fi
run replay --backend cpu "${model[@]}" "${trace[@]}" --policy chunked -q
expect "other backends run beside a broken plug-in" same "$status" 0

LOCKSTEP=$built
if [ -e "$tmp/lockstep-cuda.so" ] && ! [ -e /dev/nvidiactl ]; then
	run replay --backend cuda "${model[@]}" "${trace[@]}" --policy chunked
	expect "no GPU: status 2" same "$status" 2
	expect "no GPU: one line" lines "$err" 1
	expect "no GPU: it says what is missing" grep -qE 'has no NVIDIA driver|finds no device|too old' <<<"$err"
	run validate --backend cuda --device h200 "${model[@]}" "${trace[@]}" --policies chunked
	expect "validate: status 2" same "$status" 2
	expect "validate: one line" lines "$err" 1
else
	skip "the plug-in without a GPU: $([ -e /dev/nvidiactl ] && echo "there is one" || echo "it is not built")"
fi

expect "a validation wants the GPU's specification" refused "which GPU is it?" validate --backend cuda "${model[@]}" \
	"${trace[@]}"
expect "--threads is the CPU's" refused "--threads goes with --backend cpu" replay --backend cuda "${model[@]}" "${trace[@]}" \
	--threads 2
expect "--batch-invariant is the CPU's" refused "--batch-invariant goes with --backend cpu" replay --backend cuda \
	"${model[@]}" "${trace[@]}" --batch-invariant
expect "--enforce-eager is the GPU's" refused "--enforce-eager goes with --backend cuda" replay --backend cpu "${model[@]}" \
	"${trace[@]}" --enforce-eager
expect "fp8 weights are the GPU's" refused "but for --backend cuda" replay --backend cpu "${model[@]}" "${trace[@]}" \
	--weight-dtype fp8
finish
