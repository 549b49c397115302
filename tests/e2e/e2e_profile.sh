#!/bin/bash
# lockstep profile, as typed: measured, looked at, handed on, imported, and what a run makes of it.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/p.db
small=(--model stories-260k --max-tokens 32 --max-context 64 --max-num-seqs 8 --threads 1)

run profile --backend cpu "${small[@]}" --budget 2 --name tiny --db "$db"
expect "measuring succeeds" same "$status" 0
expect "it says what was measured" has "$out" 'Model     stories-260k, 5 layers, weights fp32, KV cache fp32, blocks of 16'
expect "and how to use it" has "$out" "--cost-model profiled:1"
expect "operations are shown" has "$out" "Attention of decodes by rows"
run profile list --db "$db" --json
expect "it is listed" holds "$out" '.profiles | length == 1 and .[0].name == "tiny" and .[0].points > 20
	and .[0].threads == 1 and .[0].source == "measured"'
run profile show tiny --db "$db" --all
expect "every point can be seen" has "$out" "prefill"
run profile show --db "$db" --against roofline
expect "against the peaks" has "$out" "TFLOP/s"

run profile export tiny "$tmp/tiny.json" --db "$db"
expect "it is exported" file_holds "$tmp/tiny.json" '.lockstep_profile == 1 and (.points | length > 20)'
run profile import "$tmp/tiny.json" --name again --db "$db"
expect "and imported" has "$out" '2 "again"'
run profile export again --db "$db"
expect "with the same hash" same "$(jq -r .hash <<<"$out")" "$(jq -r .hash "$tmp/tiny.json")"
jq '.points[3].ns *= 3' "$tmp/tiny.json" >"$tmp/changed.json"
expect "a changed one is refused" refused "somebody changed it" profile import "$tmp/changed.json" --db "$db"

serve=(--model stories-260k --device cpu --weight-dtype fp32 --dataset-name random --num-prompts 20
	--random-input-len 20 --random-output-len 10 --db "$db")
run replay --cost-model profiled "${serve[@]}" --json
expect "a run takes its times from the latest that fits" same "$status" 0
expect "and stores which" same "$(sqlite3 "$db" "SELECT profile_id, profile_hash FROM runs" 2>/dev/null)" \
	"2|$(jq -r .hash "$tmp/tiny.json")"
one=$out
run replay --cost-model profiled:tiny "${serve[@]}" --no-db --json
expect "by name, without storing, the same figures" same "$(jq '[.duration, .mean_ttft_ms, .mean_tpot_ms]' <<<"$out")" \
	"$(jq '[.duration, .mean_ttft_ms, .mean_tpot_ms]' <<<"$one")"
run compare --policies chunked --cost-model "profiled:tiny,step=1ms,profiled:2" "${serve[@]}" --json
expect "cost models in a list, with words of their own" same "$status" 0
expect "another block size is refused" refused 'block size "16", the run says "32"' \
	replay --cost-model profiled:tiny --block-size 32 "${serve[@]}"
run replay --cost-model profiled:tiny,any=on --block-size 32 "${serve[@]}"
expect "unless told" same "$status" 0
expect "another model is refused" refused 'model "stories-260k", the run says "llama-110m"' \
	replay --cost-model profiled:tiny --model llama-110m --device cpu --dataset-name random --db "$db"
expect "none fits" refused "none of 2 profiles" \
	replay --cost-model profiled --model llama-110m --device cpu --dataset-name random --db "$db"
expect "no such profile" refused "did you mean tiny" replay --cost-model profiled:tinny "${serve[@]}"
sqlite3 "$db" "UPDATE profile_points SET ns = ns * 3 WHERE profile_id = 1 AND op = 'head'" 2>/dev/null
expect "a changed profile is never served" refused "somebody changed them" \
	replay --cost-model profiled:tiny,any=on "${serve[@]}"

tables=(tests/corpus/profile/linear.csv tests/corpus/profile/attention.csv)
run profile import "${tables[@]}" --model llama-2-7b --device a100-80g --name half --db "$db"
expect "tables are imported" has "$out" "7 matmul, 7 other, 0 head, 9 decode, 6 prefill"
expect "what is missing is told when it is needed" refused "no points of head" \
	replay --cost-model profiled:half --model llama-2-7b --device a100-80g --dataset-name random --db "$db"
run profile import "${tables[@]}" --model llama-2-7b --device a100-80g --fill roofline --name whole --db "$db"
expect "or filled" has "$out" "head estimated by the roofline, not measured"
run replay --cost-model profiled:whole --model llama-2-7b --device a100-80g --dataset-name random --num-prompts 9 --db "$db"
expect "and steps are timed" same "$status" 0
expect "a name is taken once" refused "choose another --name" \
	profile import "${tables[@]}" --model llama-2-7b --device a100-80g --name half --db "$db"
expect "tables need a model" refused "give --model and --device" profile import "${tables[@]}" --db "$db"
expect "of another model" refused "it is of another model" \
	profile import "${tables[@]}" --model llama-2-13b --device a100-80g --db "$db"
expect "other files" refused "neither an export" profile import README.md --model llama-2-7b --device a100-80g --db "$db"
expect "no file" refused "no file" profile import --db "$db"
run profile delete half whole --db "$db"
expect "profiles are deleted" same "$(grep -c Deleted <<<"$out")" 2

expect "a number is no name" refused "no number" profile "${small[@]}" --name 7 --db "$db"
expect "no model" refused "Give --model" profile --db "$db"
expect "a model kernels cannot run" refused "cannot be run" profile --model mixtral-8x7b --db "$db"
expect "no such word" refused "not one of list, show" profile measure --db "$db"
expect "no budget to speak of" refused "raise --budget" profile "${small[@]}" --budget 0.01 --max-tokens 4096 --db "$db" \
	--max-context 512 --max-num-seqs 1

# A stop: what is there is stored, marked partial. (A shell's background jobs do not hear SIGINT.)
"$LOCKSTEP" profile --model stories-260k --budget 600 --threads 1 --name stopped --db "$db" >"$tmp/out" 2>"$tmp/stderr" &
sleep 4
kill -TERM $!
wait $!
status=$?
expect "interrupted" same "$status" 130
run profile list --db "$db" --json
if [ -s "$tmp/stderr" ]; then # a slow machine: nothing to keep yet
	expect "and said why" grep -q "before there was enough" "$tmp/stderr"
else
	expect "and kept" holds "$out" '[.profiles[] | select(.name == "stopped" and .partial)] | length == 1'
fi
finish
