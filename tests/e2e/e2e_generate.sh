#!/bin/bash
# lockstep generate, as typed: real kernels on a real (if small) model; on random weights where that is not there.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"

# A model of 8 dimensions, 16 tokens, 8 positions.
toy=tests/corpus/llama2c/tied.bin

run generate --weights "$toy" --ignore-eos --max-tokens 5
expect "a .bin describes itself; ids without a tokenizer" same "$status" 0
expect "the prompt is the token that begins a text" same "$(cut -d' ' -f1 <<<"$out")" 1
expect "as many as asked for" same "$(wc -w <<<"$out")" 6
expect "what ran is said" has "$err" "tied.bin (llama2.c, f32)"
first=$out
for how in "--kv-cache off" "--block-size 1" "--threads 1" "--isa base" "--batch-invariant"; do
	# shellcheck disable=SC2086 # several words on purpose
	run generate --weights "$toy" --ignore-eos --max-tokens 5 $how --quiet
	expect "the same tokens with $how" same "$out" "$first"
	expect "quiet is quiet" same "$err" ""
done
run generate --weights "$toy" --max-tokens 7
expect "left to itself, it ends where its text does" has "$err" "ended by itself"
run generate --weights "$toy" --prompt-ids 3,4,5 -n 6 --ignore-eos --json
expect "-n counts the prompt's positions" holds "$out" '.prompt_tokens == [3, 4, 5] and (.tokens | length) == 4 and
	.end == "length" and .text == null and .prefill.tokens == 3 and .decode.tokens == 3'
run generate --weights "$toy" --temperature 1 --seed 5 --ignore-eos --max-tokens 7
one=$out
run generate --weights "$toy" --temperature 1 --seed 5 --ignore-eos --max-tokens 7 --kv-cache off
expect "a seed is a text" same "$out" "$one"
run generate --weights "$toy" --temperature 1 --seed 6 --ignore-eos --max-tokens 7
expect "another seed is another" test "$out" != "$one"
run generate --weights "$toy" --temperature 1 --top-k 1 --ignore-eos --max-tokens 5
two=$out
run generate --weights "$toy" --ignore-eos --max-tokens 5
expect "the likeliest of one is the greedy one" same "$out" "$two"

echo '{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 1000,
"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "torch_dtype": "float32",
"bos_token_id": 1}' >"$tmp/random.json"
run generate --model "$tmp/random.json" --weights random:3 --max-tokens 4 --weight-dtype int8 --compare-weights fp32 --json
expect "random weights of any shape, and what int8 costs" holds "$out" '.weights == "random:3 (f32)" and
	.weight_dtype == "int8" and .compared.weight_dtype == "f32" and .compared.steps == 4 and
	.compared.logit_error > 0.001 and .compared.logit_error < 0.1 and .compared.greedy_agree >= 2'
run generate --weights "$toy" --ignore-eos --max-tokens 6 --compare-weights fp32
expect "a model is like itself" has "$err" "the same in 6 of 6 steps (100.0 %)"
expect "to the last bit" has "$err" "logits differ by 0 "

expect "nothing to run" refused "Give --weights" generate
expect "random weights of what" refused "--model" generate --weights random:1
expect "no such file" refused "nowhere.bin" generate --weights nowhere.bin
expect "another model's weights" refused "holds another model" generate --model tinyllama-1.1b --weights "$toy"
expect "a model that has no kernels here" refused "mixture of experts" generate --model mixtral-8x7b
expect "text without a tokenizer" refused "needs a --tokenizer" generate --weights "$toy" --prompt hello
expect "ids that are none" refused "from 0 to 15" generate --weights "$toy" --prompt-ids 3,16
expect "words for ids" refused "from 0 to 15" generate --weights "$toy" --prompt-ids 3,x
expect "two prompts" refused "which of them" generate --weights "$toy" --prompt a --prompt-ids 1
expect "two lengths" refused "which of them" generate --weights "$toy" -n 5 --max-tokens 5
expect "longer than the model" refused "8 positions" generate --weights "$toy" -n 9
expect "a prompt longer than the model" refused "8 positions" generate --weights "$toy" --prompt-ids 1,2,3,4,5,6,7,8,9
expect "fewer steps than prompt" refused "less than the prompt" generate --weights "$toy" --prompt-ids 1,2,3 -n 2
expect "weights in what kernels have not" refused "fp32, bf16 or int8" generate --weights "$toy" --weight-dtype nf4
expect "a tokenizer of another model" refused "another model's tokenizer" generate --weights "$toy" \
	--tokenizer tests/corpus/tokenizer/bytes.bin
expect "an instruction set nobody has" refused "mmx" generate --weights "$toy" --isa mmx
expect "a stray word" refused "--prompt TEXT" generate --weights "$toy" hello
head -c 3000 "$toy" >"$tmp/cut.bin"
expect "a file cut off" refused "cut off" generate --weights "$tmp/cut.bin"
expect "a checkpoint without its config" refused "give --model" generate --weights \
	tests/corpus/safetensors/f32.safetensors
mkdir "$tmp/checkpoint"
cp tests/corpus/safetensors/f32.safetensors "$tmp/checkpoint/model.safetensors"
echo '{"model_type": "llama", "hidden_size": 4, "intermediate_size": 6, "num_hidden_layers": 1, "vocab_size": 8,
"num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16}' >"$tmp/checkpoint/config.json"
run generate --weights "$tmp/checkpoint" --prompt-ids 1 --max-tokens 3
expect "a folder as downloaded" has "$err" "checkpoint (1 file, f32)"

real=$shared/models/stories260K
if [ -r "$real/stories260K.bin" ]; then
	for how in "" "--isa base" "--kv-cache off" "--block-size 8" "--threads 1"; do
		# shellcheck disable=SC2086
		"$LOCKSTEP" generate --weights "$real/stories260K.bin" --tokenizer "$real/tok512.bin" --temperature 0 -n 200 \
			$how >"$tmp/text" 2>"$tmp/stderr"
		expect "the text that llama2.c writes, byte for byte $how" cmp "$tmp/text" "$real/expected_stdout_t0_n200.txt"
	done
	run generate --weights "$real/stories260K.bin" --tokenizer "$real/tok512.bin" --prompt "Once upon a time" -n 200 -q
	expect "its beginning as the prompt: the same text" same "$out" "$(cat "$real/expected_stdout_t0_n200.txt")"
	run generate --weights "$real/stories260K.bin" --tokenizer "$real/tok512.bin" --weight-dtype int8 -n 200 \
		--compare-weights fp32 --json
	expect "what int8 weights cost" holds "$out" '.compared | .steps == 200 and .greedy_agree >= 190 and
		.logit_error < 0.02'
	run generate --weights "$real/stories260K.bin" --tokenizer "$real/tok512.bin" --prompt "café 😀" -n 30 --json
	expect "text that is no English" holds "$out" '.text | startswith("café 😀")'
else
	skip "stories260K is not here"
fi
finish
