#!/bin/bash
# validate: a small model on real kernels against the simulator: what is printed, stored, written, and how it ends. Times are
# of whatever machine this runs on: what is checked is that they are there and fit together, not how large they are.
# shellcheck source=tests/support/e2e.sh
. "$(dirname "$0")/../support/e2e.sh"
db=$tmp/v.db
small=(--model stories-260k --dataset-name sample:azure --num-prompts 12 --length-scale 0.05 --num-gpu-blocks-override 200
	--profile-budget 1)

# Three policies, memory, decisions, steps and requests.
run validate --backend cpu "${small[@]}" --weights random:1 --db "$db" --json
expect "a validation succeeds" test "$status" -eq 0 -a -z "$err"
expect "one object for each policy" holds "$out" '[.policies[].policy] == ["naive", "continuous", "chunked"]'
expect "decisions and memory are identical" holds "$out" 'all(.policies[]; .decisions_identical and .memory_identical and .passed)'
for key in step_mape ttft_p50_err ttft_p99_err tpot_p50_err e2e_p50_err executor_spread; do
	expect "JSON has $key" holds "$out" "all(.policies[]; .$key | type == \"number\")"
done
for t in queue prefill ttft tpot e2e; do
	for s in mean p50 p90 p99; do
		expect "and ${t}_${s}" holds "$out" "all(.policies[]; has(\"${t}_${s}_err\") and has(\"${t}_${s}_spread\") and
			(.measured_${t}_${s}_ms | type == \"number\") and (.simulated_${t}_${s}_ms | type == \"number\"))"
	done
done
expect "steps are split by what they do" holds "$out" 'all(.policies[]; .step_errors | .all.n == .prefill.n + .decode.n + .mixed.n)'
expect "and by what they spend their time on" holds "$out" \
	'all(.policies[]; .part_errors | keys == ["attention", "head", "host", "matmul", "other"])'
expect "all requests were served on both sides" holds "$out" 'all(.policies[]; .completed == 12 and .completed_simulated == 12)'
expect "percentiles of 12 are marked" holds "$out" 'all(.policies[]; .ttft_p99_mark == "few samples")'
expect "the machine is told" holds "$out" '.machine.cpus >= 1 and (.executor | contains("cpu"))'
expect "other load is looked at" holds "$out" 'all(.policies[]; .contention | has("others_percent") and has("load_average"))'
expect "the errors are those of the values" holds "$out" 'all(.policies[];
	((.simulated_e2e_p50_ms / .measured_e2e_p50_ms - 1) * 100 - .e2e_p50_err) | fabs < 1e-6)'

# All of it is in the database, linked to its runs.
sql() { sqlite3 "$db" "$1"; }
expect "three validations are stored" same "$(sql 'select count(*) from validations where passed')" 3
expect "of six runs" same "$(sql "select count(*) from runs where status = 'complete'")" 6
expect "executed and simulated" same "$(sql 'select count(*) from validations v join runs a on a.run_id = v.executed_run_id
	join runs b on b.run_id = v.simulated_run_id where a.backend = '"'cpu'"' and b.backend = '"'simulator'"'
	and a.workload_hash = b.workload_hash and a.num_gpu_blocks = b.num_gpu_blocks')" 3
expect "with their errors" same "$(sql "select count(*) from validation_errors where what = 'ttft' and statistic = 'p50'
	and measured > 0 and simulated > 0")" 3
expect "and every executed step, predicted" same "$(sql "select group_concat(n) from (select count(*) n from validation_steps where measured_ns > 0 and predicted_ns > 0
	group by validation_id)")" "$(sql 'select group_concat(steps) from validations')"
run report --all --db "$db" -o "$tmp/report.html"
if [ "$status" -eq 2 ] && has "$err" "libjs-vega"; then
	skip "validations in the report: Vega is not installed (libjs-vega)"
else
	page=$(sed -n 's#^<script type="application/json" id="data">\(.*\)</script>$#\1#p' "$tmp/report.html")
	expect "the report shows validations" holds "$page" '.validations | length == 3 and all((.steps | length) == .row[0].steps and (.errors | length) > 20)'
	expect "with the figures of the database" same "$(jq '[.validations[].steps[].predicted_ns] | add | round' <<<"$page")" \
		"$(sql 'select cast(round(sum(predicted_ns)) as int) from validation_steps')"
fi
expect "the profile it measured is kept" same "$(sql 'select count(*) from profiles')" 1
run decisions --db "$db" 5
expect "an executed run's decisions can be had again" test "$status" -eq 0 -a -n "$out"

run decisions --db "$db" 6
expect "and the simulated one's" test "$status" -eq 0 -a -n "$out"
run diff --db "$db" 5 6
expect "and how the two decide" has "$out" "uns 5 and 6"

# Once more: the profile is there already. A page with plots.
run validate "${small[@]}" --policies chunked --db "$db" --report "$tmp/page.md" --record steps
expect "text" test "$status" -eq 0 -a -z "$err"
for word in "block tables identical" "identical when replayed" "step time" matmul TTFT TPOT "output tokens/s" \
	"Executing takes about" "validation 4" "page.md" "profile 1"; do
	expect "it has $word" has "$out" "$word"
done
expect "no second profile" same "$(sql 'select count(*) from profiles')" 1
expect "the page" grep -q '^| chunked | - | identical | identical |' "$tmp/page.md"
expect "says how to repeat it" grep -q '^lockstep validate .*--report' "$tmp/page.md"
plots=$(sed -n 's/^!\[.*](\(.*\))$/\1/p' "$tmp/page.md")
expect "it has four plots" lines "$plots" 4
for plot in $plots; do
	expect "$plot is there" test -s "$tmp/$plot"
	if command -v xmllint >/dev/null; then
		expect "and well-formed" xmllint --noout "$tmp/$plot"
	fi
done
expect "every step that was executed is stored" same \
	"$(sql 'select count(*) from step_timeline where run_id = (select max(executed_run_id) from validations)')" \
	"$(sql 'select steps from validations where validation_id = 4')"

# Loads: as much as the simulator says can be served, and shares of it. What was executed can be had again at that load, too.
run validate "${small[@]}" --policies continuous --db "$db" --load 0.3,1.5 --repeats 1 --json
expect "two loads" holds "$out" '[.policies[].load] == [0.3, 1.5]'
expect "are what arrives" holds "$out" 'all(.policies[]; (.offered_rate / (.load * .capacity) - 1) | fabs < 0.01)'
expect "one execution has no spread" holds "$out" 'all(.policies[]; .executor_spread == null and .executions == 1)'
run decisions --db "$db" "$(sql 'select max(executed_run_id) from validations')"
expect "its decisions can be had again" test "$status" -eq 0 -a -n "$out"

# A cost model that is wrong is found out.
wrong=(--cost-model constant:3s --policies chunked --no-db)
run validate "${small[@]}" "${wrong[@]}" --max-error 50 --json
expect "beyond the limit: status 1" test "$status" -eq 1
expect "and said" holds "$out" '.policies[0] | (.passed | not) and .beyond > 0 and .step_mape > 50 and .decisions_identical'
run validate "${small[@]}" "${wrong[@]}" --json
expect "without a limit errors are only told" test "$status" -eq 0
run validate "${small[@]}" "${wrong[@]}" --max-error 50
expect "in words" has "$out" "BEYOND --max-error 50 %"

# With --check the executor verifies every KV read; memory is proven, times are not.
run validate "${small[@]}" --policies naive,continuous,chunked --no-db --check --json
expect "every KV read is right" test "$status" -eq 0

# What was typed wrong.
expect "no model" refused "--model" validate --no-db --dataset-name sample:azure
expect "a simulator is no executor" refused "--backend" validate "${small[@]}" --backend sim --no-db
expect "no lists but policies" refused "several values" validate "${small[@]}" --max-num-seqs 4,8 --no-db
expect "a load that is none" refused "--load" validate "${small[@]}" --load 0.3,x --no-db
expect "a load of requests that all come at once" refused "--request-rate" validate "${small[@]}" --policies chunked \
	--request-rate inf --load 0.5 --no-db --quiet
run validate "${small[@]}" --policies chunked --no-db --quiet --repeats 1 --report "$tmp/no/such/page.md"
expect "a page that cannot be written" test "$status" -eq 1
expect "is named" has "$err" "no/such"
expect "a policy that is not known" refused "did you mean chunked?" validate "${small[@]}" --policies chunkde --no-db
expect "result files" refused "--report" validate "${small[@]}" --save-result --no-db
finish
