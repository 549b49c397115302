#!/bin/bash
# decisions, diff and replay --run: a stored run is made again from its command line, and decides as it did.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/d.db
sim=(--cost-model "linear:a=5ms,b=20us,c=100us" --num-gpu-blocks-override 60 --db "$db")
"$LOCKSTEP" trace generate --num-prompts 60 --seed 3 "$tmp/made.jsonl" >/dev/null || exit 1
cp "$tmp/made.jsonl" "$tmp/kept.jsonl"

# --- simulations
run compare "${sim[@]}" --policies chunked,continuous --max-num-seqs 4,8 --replay-speedup 30 --length-scale 0.2 --seed 7 --quiet "$tmp/made.jsonl"
expect "four runs are stored" test "$status" -eq 0 -a "$(sqlite3 "$db" 'select count(*) from runs')" -eq 4
expect "with their command line" same "$(sqlite3 "$db" "select arguments ->> '\$[0]', arm from runs where run_id = 4")" "compare|3"
run decisions 1 --db "$db"
expect "a run's decisions are printed" test "$status" -eq 0 -a -z "$err"
expect "they begin with an arrival" has "$(head -1 <<<"$out")" ": arrive "
expect "and end with a step" has "$(tail -1 <<<"$out")" ": step ends at "
first=$out
expect "every request's end is among them" same "$(grep -c ': finish ' <<<"$out")" "$(sqlite3 "$db" "select value from metrics where run_id = 1 and name = 'completed'" | cut -d. -f1)"
expect "as many steps as were counted" same "$(grep -c 'step ends at' <<<"$out")" "$(sqlite3 "$db" "select value from metrics where run_id = 1 and name = 'steps'" | cut -d. -f1)"
run decisions --db "$db" 1
expect "the same again" same "$out" "$first"
run decisions 4 --db "$db"
expect "another arm decides otherwise" test "$status" -eq 0 -a "$out" != "$first"
run decisions 1 --db "$db" --steps 3-4
expect "--steps takes a range" same "$out" "$(grep -E '^[34] ' <<<"$first")"
run decisions 1 --db "$db" --steps -2
expect "--steps is open below" same "$out" "$(grep -E '^[012] ' <<<"$first")"
run decisions 1 --db "$db" --steps 5
expect "--steps takes one" same "$out" "$(grep -E '^5 ' <<<"$first")"
name=$(sqlite3 "$db" 'select name from request_detail where run_id = 1 and request = 10')
run decisions 1 --db "$db" --request "$name"
expect "--request takes one request" same "$out" "$(grep -E ': [a-z]+ 10 ' <<<"$first")"
run decisions 1 --db "$db" --json
expect "JSON has every line" same "$(jq '.events | length' <<<"$out")" "$(wc -l <<<"$first")"
expect "with nanoseconds and hashes" holds "$out" '(.events[-1].at_ns | type) == "number" and (.decision_hash | length) == 16 and .run_id == 1'
expect "a bad range is refused" refused "not a range of steps" decisions 1 --db "$db" --steps 9-3
expect "an unknown request is refused" refused "has no request" decisions 1 --db "$db" --request nobody
expect "two runs are refused" refused "one run at a time" decisions 1 2 --db "$db"
expect "an unknown run is refused" refused "there is no run 77" decisions 77 --db "$db"

# --- the trace
mv "$tmp/made.jsonl" "$tmp/moved.jsonl"
expect "a trace that is gone is named" refused "$tmp/made.jsonl" decisions 1 --db "$db"
expect "with what to do" refused "--dataset-path FILE says where it is now" decisions 1 --db "$db"
run decisions 1 --db "$db" --dataset-path "$tmp/moved.jsonl"
expect "--dataset-path says where it is" same "$out" "$first"
sed '5s/"output_tokens": *[0-9]*/"output_tokens": 3/' "$tmp/moved.jsonl" >"$tmp/made.jsonl"
expect "a changed trace is refused" refused "has changed since" decisions 1 --db "$db"
mv "$tmp/moved.jsonl" "$tmp/made.jsonl"
run replay "${sim[@]}" --dataset-path - --format lockstep --quiet
"$LOCKSTEP" replay "${sim[@]}" --format lockstep --quiet - <"$tmp/made.jsonl"
expect "a trace from standard input is asked for" refused "standard input" decisions latest --db "$db"
run decisions latest --db "$db" --dataset-path "$tmp/made.jsonl"
expect "and taken where it is" test "$status" -eq 0 -a -n "$out"
sqlite3 "$db" "update runs set arguments = null where run_id = 3"
expect "without a command line it cannot be made again" refused "its command line was not stored" decisions 3 --db "$db"

# --- diff
run diff 1 1 --db "$db" --times
expect "a run decides as it does itself" test "$status" -eq 0
expect "and says so" has "$out" "decide alike"
run diff 1 2 --db "$db"
expect "two that differ: exit status 1" test "$status" -eq 1 -a -z "$err"
for word in "part in step" "running" "blocks free" "max_num_seqs" "4  |  8" "clocks"; do expect "its text has $word" has "$out" "$word"; done
# The first step in which the logs differ, by other means: times and arrivals left out.
plain() { "$LOCKSTEP" decisions "$1" --db "$db" --json | jq -c '.events[] | select(.what != "arrive") | if .what == "step" then [.step] else [.step, .what, .request, .a, .b] end'; }
step=$(diff <(plain 1) <(plain 2) | grep '^[<>]' | head -1 | grep -o '\[[0-9]*' | tr -d '[')
run diff 1 2 --db "$db" --json
expect "it finds the first" test "$status" -eq 1 -a "$(jq .step <<<"$out")" = "$step"
expect "JSON has both sides" holds "$out" '(.runs | length) == 2 and (.runs[0].events | length) > 0 and (.settings.max_num_seqs == ["4", "8"]) and .identical == false'
"$LOCKSTEP" replay "${sim[@]}" --quiet --num-gpu-blocks-override 200 --length-scale 0.2 "$tmp/made.jsonl"
"$LOCKSTEP" replay "${sim[@]}" --quiet --num-gpu-blocks-override 250 --length-scale 0.2 "$tmp/made.jsonl"
last=$(sqlite3 "$db" 'select max(run_id) from runs')
run diff $((last - 1)) "$last" --db "$db" --any-block
expect "memories of different size, both large enough, decide alike" test "$status" -eq 0
run diff $((last - 1)) "$last" --db "$db"
expect "but for which blocks are given" test "$status" -eq 1
"$LOCKSTEP" replay "${sim[@]}" --quiet --dataset-name random --num-prompts 5
expect "other workloads are refused" refused "different workloads" diff 1 latest --db "$db"
run diff 1 latest --db "$db" --force
expect "unless forced" test "$status" -eq 1 -a -z "$err"
expect "two runs are needed" refused "which two runs?" diff 1 --db "$db"

# --- runs on real kernels
cat >"$tmp/tiny.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
 "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000, "hidden_act": "silu",
 "torch_dtype": "float32", "tie_word_embeddings": true, "eos_token_id": 2}
JSON
cpu=(--backend cpu --model "$tmp/tiny.json" --threads 1 --num-gpu-blocks-override 40 --db "$db" --dataset-name random
	--num-prompts 12 --random-input-len 40 --random-output-len 12 --request-rate 400 --quiet)
cdb=0
for more in "--policy naive" "--policy continuous" "--policy chunked --time wall" "--policy chunked --async-scheduling on"; do
	# shellcheck disable=SC2086 # options
	run replay "${cpu[@]}" $more
	expect "executed: $more" test "$status" -eq 0
	id=$(sqlite3 "$db" 'select max(run_id) from runs')
	cdb=$id
	expect "$more: its inputs and outputs are stored" test "$(sqlite3 "$db" "select count(*) from inputs where id >> 32 = $id")" -gt 20 -a \
		"$(sqlite3 "$db" "select count(*) from outputs where id >> 32 = $id")" -eq 12
	run decisions "$id" --db "$db"
	expect "$more: decides as it did" test "$status" -eq 0 -a -z "$err" -a -n "$out"
	log=$out
	run replay --run "$id" --db "$db" --json
	expect "$more: replays" test "$status" -eq 0
	expect "$more: with the same hashes" same "$(sqlite3 "$db" "select count(distinct decision_hash || memory_hash) from runs where run_id in ($id, $(jq .run_id <<<"$out"))")" 1
	expect "$more: and the same latencies" same "$(sqlite3 "$db" "select count(*) from requests a join requests b on (a.id & 4294967295) = (b.id & 4294967295) where a.id >> 32 = $id and b.id >> 32 = $(jq .run_id <<<"$out") and a.decode_ns = b.decode_ns and a.queue_ns = b.queue_ns and a.prefill_ns = b.prefill_ns")" 12
	run decisions "$(jq .run_id <<<"$out")" --db "$db"
	expect "$more: a replay can be printed as well" same "$out" "$log"
done
run diff "$cdb" latest --db "$db" --times
expect "a replay has the times of its run" test "$status" -eq 0
expect "a replay has its run's settings" refused "has the settings of the run it replays" replay --run "$cdb" --db "$db" --max-num-seqs 4
expect "a replay needs a run" refused "--run RUN names one" replay --backend replay "$tmp/made.jsonl"
expect "a simulation has nothing to replay" refused "was simulated" replay --run 1 --db "$db"

# --- stopped in the middle
"$LOCKSTEP" replay "${cpu[@]}" --time wall --request-rate 6 --burstiness inf &
sleep 1
kill -TERM $!
wait $!
expect "a stopped run: exit status 130" test $? -eq 130
id=$(sqlite3 "$db" 'select max(run_id) from runs')
expect "it says so" same "$(sqlite3 "$db" "select status from runs where run_id = $id")" interrupted
run decisions "$id" --db "$db"
expect "it ends where it was stopped" test "$status" -eq 0 -a -z "$err" -a -n "$out"
expect "having served some" test "$(grep -c ': finish ' <<<"$out")" -gt 0 -a "$(grep -c ': finish ' <<<"$out")" -lt 12
log=$out
run replay --run "$id" --db "$db"
expect "its replay ends there too" test "$status" -eq 0 -a -z "$err"
run decisions latest --db "$db"
expect "with the same decisions" same "$out" "$log"

# --- what does not fit is noticed
sqlite3 "$db" "update runs set decision_hash = '0123456789abcdef' where run_id = $cdb"
run decisions "$cdb" --db "$db"
expect "another hash: exit status 1" test "$status" -eq 1
expect "and says so" has "$err" "decides otherwise"
sqlite3 "$db" "update inputs set b_ns = b_ns + 1000000000 where id = ($cdb << 32) + 12 and kind = 1 or id = ($cdb << 32) + 13 and kind = 1"
run replay --run "$cdb" --db "$db" --no-db
expect "other times: exit status is not 0" test "$status" -ne 0
sqlite3 "$db" "delete from inputs where id = ($cdb << 32) + 20"
expect "damaged inputs are named" refused "damaged at number 20" decisions "$cdb" --db "$db"
finish
