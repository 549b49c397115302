#!/bin/bash
# Workflows of agents, from their making to their figures, simulated and on real kernels: closed loop, several policies.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/a.db agents=$tmp/agents.jsonl
served=(--model llama-3.1-8b --device h100-sxm)
cat >"$tmp/tiny.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128,
 "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000, "hidden_act": "silu",
 "torch_dtype": "float32", "tie_word_embeddings": true, "eos_token_id": 2}
JSON
cpu=(--backend cpu --model "$tmp/tiny.json" --weights random:1 --threads 1 --num-gpu-blocks-override 400)
run trace generate agentic --workflows 3 --branches 3 --depth 2 --tool-time 0.05 --request-rate 50 -o "$agents"
expect "agents are made" test "$status" -eq 0 -a "$(grep -c '' "$agents")" -eq 36

# Requests that began before all they wait for had finished, plus the tools' time; or later than that.
untimely() {
	jq -r --slurp 'to_entries | (map({(.value.id): .key}) | add) as $at | .[] | .key as $i | .value.after // [] | .[] |
		"\($i) \($at[.])"' "$agents" >"$tmp/links"
	sqlite3 "$db" "select id & 4294967295, arrival_ns, arrival_ns + queue_ns + prefill_ns + decode_ns + preempted_ns from requests
		where id >> 32 = $1" | tr '|' ' ' >"$tmp/times"
	awk 'NR == FNR {from[$1] = $2; to[$1] = $3; next} {if (to[$2] > last[$1]) last[$1] = to[$2]}
		END {for (c in last) if (from[c] != last[c] + 50000000) bad++; print bad + 0}' "$tmp/times" "$tmp/links"
}

# --- played on both backends
for how in "${served[*]} --prefix-cache radix" "${cpu[*]}" "${cpu[*]} --prefix-cache hash"; do
	# shellcheck disable=SC2086 # options
	run compare "$agents" $how --policies vllm_v1,sglang,trtllm --db "$db" --json
	expect "three policies: $how" holds "$out" '.runs | length == 3 and all(.completed == 36 and .completed_workflows == 3)'
	expect "workflows have makespans: $how" holds "$out" '.runs | all(.mean_makespan_ms > 4 * .mean_e2el_ms and .critical_requests == 4
		and .critical_tool_share > 0 and .workflow_throughput > 0)'
	for id in $(jq -r '.runs[].run_id' <<<"$out"); do
		expect "run $id: one makespan a workflow, whose mean is told" same "$(sqlite3 "$db" "select count(*), round(avg(makespan_ms), 3) from session_latency
			where run_id = $id")" "3|$(jq -r ".runs[] | select(.run_id == $id) | (.mean_makespan_ms * 1000 | round) / 1000" <<<"$out")"
		expect "run $id: a child starts when its parents have finished, tools included" same "$(untimely "$id")" 0
	done
done
expect "the tree has the same links as the trace" test "$(grep -c '' "$tmp/links")" -eq 45

# --- one loaded model for all arms: with the same answers as each alone
run compare "$agents" "${cpu[@]}" --policies vllm_v1,orca --kv-cache-dtype fp32,bf16 --db "$db" --json
expect "several policies and formats" holds "$out" '.runs | length == 4 and all(.completed == 36)'
answers() { sqlite3 "$db" "select hex(tokens) from outputs where id >> 32 = $1 order by id"; }
mapfile -t together < <(jq -r '.runs[].run_id' <<<"$out")
n=0
for policy in vllm_v1 orca; do
	for kv in fp32 bf16; do
		run replay "$agents" "${cpu[@]}" --policy $policy --kv-cache-dtype $kv --db "$db" --json
		expect "$policy, $kv: the same answers alone" same "$(answers "$(jq .run_id <<<"$out")")" "$(answers "${together[n]}")"
		n=$((n + 1))
	done
done
expect "formats differ in what they answer" test "$(answers "${together[0]}")" != "$(answers "${together[1]}")"
run compare "$agents" "${cpu[@]}" --policies vllm_v1 --max-num-seqs 2,64 --no-db --json
expect "more requests than before" holds "$out" '.runs | all(.completed == 36) and .[1].max_running > .[0].max_running'

# --- executed against simulated
run validate "$agents" "${cpu[@]}" --policies vllm_v1,sglang --profile-budget 1 --spread-budget 0 --no-db --json
expect "agents are validated" holds "$out" '.policies | length == 2 and all(.decisions_identical and .memory_identical and .completed == 36)'

# --- what others have measured
if [ -r "$shared/traces/agentic/openhands_rounds.csv" ]; then
	for f in "$shared"/traces/agentic/*.csv "$shared"/traces/agentic/otel/*_*.json; do
		for cache in off hash radix; do
			run compare "$f" "${served[@]}" --policies vllm_v1,sglang,trtllm --prefix-cache $cache --no-db --json
			expect "$(basename "$f"), cache $cache" holds "$out" '.runs | length == 3 and all(.failed == 0 and .unfinished == 0 and
				.workflows > 0 and .completed_workflows == .workflows and .mean_makespan_ms >= .mean_e2el_ms)'
		done
	done
else
	skip "the agents' traces are not here"
fi
finish
