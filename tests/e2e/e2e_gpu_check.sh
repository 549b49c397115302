#!/bin/bash
# Every stage of `make gpu-check`, on a stand-in for a GPU: the script, the programs it runs, the two files it writes. Its shapes
# are small, and no figure of it says anything about a GPU.
built=$(dirname "${LOCKSTEP:-build/lockstep}")
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

if ! [ -e "$built/tests/fake-gpu/lockstep-cuda.so" ]; then
	skip "there is no stand-in for a GPU in this build"
	finish
fi
gpu=$tmp/gpu
mkdir -p "$gpu/tests" "$gpu/bin"
cp "$LOCKSTEP" "$gpu/lockstep"
cp "$built/tests/fake-gpu/lockstep-cuda.so" "$gpu"
cp "$built/tests/gpu_ops" "$built/tests/gpu_speed" "$gpu/tests"

# As compute-sanitizer: the program is there (it says what the device is), and one of the tools finds something.
cat >"$gpu/bin/compute-sanitizer" <<'STUB'
#!/bin/bash
[ "$1" = --tool ] && [ "$3" = --error-exitcode ] && [ "$6" -ge 16 ] && "$5" name || exit 2
[ "$2" = initcheck ] && exit "$4"
exit 0
STUB
chmod +x "$gpu/bin/compute-sanitizer"

# A model of two layers with every token that the script's prompts have, and a trace of short requests.
cat >"$tmp/small.json" <<'MODEL'
{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1200, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
 "rope_theta": 10000.0, "torch_dtype": "bfloat16", "tie_word_embeddings": false}
MODEL
{
	echo "TIMESTAMP,ContextTokens,GeneratedTokens"
	for i in 1 2 3 4 5 6; do echo "2023-11-16 18:15:4$i.0000000,$((8 + 3 * i)),$((2 + i % 3))"; done
} >"$tmp/short.csv"

status=0
out=$(PATH=$gpu/bin:$PATH GPU_CHECK_MODEL=$tmp/small.json GPU_CHECK_SMALL=$tmp/small.json GPU_CHECK_DEVICE=l4 \
	GPU_CHECK_TRACE=$tmp/short.csv GPU_CHECK_SHRINK=64 tools/gpu_check.sh "$gpu" 2>"$tmp/stderr") || status=$?
err=$(cat "$tmp/stderr")
expect "a check that fails: status 1" same "$status" 1
expect "it says nothing on stderr" same "$err" ""
expect "and ends with a summary" grep -qE '^gpu-check: [0-9]+ s, 1 failed; .*gpu-check.json and .*gpu-check.md$' <<<"$out"
expect "each check has a row" same "$(jq -r '.checks | length' "$gpu/gpu-check.json")" 13
expect "only the sanitizer that found something fails" same \
	"$(jq -r '.checks[] | select(.result != "pass") | "\(.name) \(.result)"' "$gpu/gpu-check.json")" "compute-sanitizer: initcheck FAIL"
expect "speed beside ceilings" file_holds "$gpu/gpu-check.json" \
	'.speed.shrunk == 64 and (.speed.figures | length == 9 and all(.value > 0)) and ([.speed.figures[] | select(.reached != null)] | length == 6)'
expect "the page says that it is a rehearsal" grep -q "shapes and numbers are divided by 64" "$gpu/gpu-check.md"
expect "the page has a row for each check" same "$(grep -cE '^\| .* \| (pass|FAIL) \| ' "$gpu/gpu-check.md")" 13
expect "and for each figure" same "$(grep -cE '^\| .* (GB/s|Tflop/s|us) \|' "$gpu/gpu-check.md")" 9
expect "the profile is kept" file_holds "$gpu/gpu-profile.json" '.points | length > 3'
expect "the validation is kept" grep -q "vllm_v1" "$gpu/gpu-validation.md"

# A kernel reaches into memory that is not there, somewhere in the run.
LOCKSTEP=$gpu/lockstep
export FAKE_CUDA_FAIL_IN=400
run replay --backend cuda --model "$tmp/small.json" --weights random:1 --dataset-path "$tmp/short.csv" --policy chunked \
	--max-num-seqs 4 --num-gpu-blocks-override 64 --db "$tmp/lost.db"
unset FAKE_CUDA_FAIL_IN
expect "a lost context: status 1" same "$status" 1
expect "it names the step, what was in it and the operation" grep -qE \
	'step [0-9]+ \([0-9]+ decodes?, [0-9]+ prompt pieces?, [0-9]+ rows?\): cuda Fake GPU .*illegal memory access.*started last: ' <<<"$err"
expect "the database is whole" same "$(sqlite3 "$tmp/lost.db" "PRAGMA integrity_check; SELECT status FROM runs")" "ok
failed"
expect "and has the steps before it" same \
	"$(sqlite3 "$tmp/lost.db" 'SELECT count(*) > 0 AND max(id & 0xffffffff) + 1 = count(*) FROM steps')" 1
finish
