/* store_schema.c: the tables and views, and how an older database is brought up to date. docs/database.md explains every
 * column; keep it in step. */
#include <stdio.h>

#include "analysis/store_internal.h"
#include "analysis/store_outline.h"

_Static_assert(REQUEST_FINISHED == 4, "the default of requests.state");

#define OUTLINE_COLUMN(name)                                                                                           \
	", " #name "_min INTEGER NOT NULL, " #name "_max INTEGER NOT NULL, " #name "_sum INTEGER NOT NULL"
#define OUTLINE_COLUMNS STEP_OUTLINE(OUTLINE_COLUMN)

#define APPLICATION_ID 0x4c4f434b /* "LOCK" */

/* migrations[v] takes a database from version v to v + 1. Never edit one that has been released; add another. */
static const char *const migrations[] = {
	/* 0 -> 1 */
	"CREATE TABLE runs ("
	" run_id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" status TEXT NOT NULL CHECK (status IN ('running', 'complete', 'interrupted', 'stalled', 'failed')),"
	" status_text TEXT,"
	" started TEXT,"
	" program_version TEXT NOT NULL,"
	" label TEXT NOT NULL,"
	" policy TEXT NOT NULL,"
	" policy_params TEXT,"
	" model TEXT,"
	" device TEXT,"
	" weight_dtype TEXT,"
	" kv_cache_dtype TEXT,"
	" tensor_parallel_size INTEGER NOT NULL,"
	" cost TEXT,"
	" backend TEXT,"
	" gpu_memory_utilization REAL,"
	" num_gpu_blocks_override INTEGER,"
	" num_gpu_blocks INTEGER,"
	" block_size INTEGER,"
	" max_num_seqs INTEGER,"
	" max_num_batched_tokens INTEGER,"
	" max_model_len INTEGER,"
	" max_concurrency INTEGER,"
	" kv_cache INTEGER,"
	" prefix_caching INTEGER,"
	" hit_visible TEXT,"
	" cache_at_start TEXT,"
	" scheduling_policy TEXT,"
	" async_scheduling INTEGER,"
	" seed TEXT,"
	" trace TEXT,"
	" trace_format TEXT,"
	" trace_hash TEXT,"
	" workload_hash TEXT NOT NULL,"
	" requests INTEGER NOT NULL,"
	" request_rate REAL,"
	" burstiness REAL,"
	" replay_speedup REAL,"
	" length_scale REAL,"
	" max_tokens_mode TEXT,"
	" traffic_note TEXT,"
	" lengths_estimated INTEGER,"
	" oracle INTEGER,"
	" recorded TEXT NOT NULL,"
	" sim_wall_s REAL,"
	" result TEXT" /* the JSON object; only its settings until the run has ended */
	") STRICT;"

	"CREATE TABLE requests ("
	" id INTEGER PRIMARY KEY," /* run_id * 2^32 + request */
	" state INTEGER NOT NULL DEFAULT 4," /* finished */
	" why INTEGER NOT NULL DEFAULT 0,"
	" source_row INTEGER,"
	" name TEXT,"
	" session INTEGER,"
	" tenant TEXT,"
	" priority INTEGER DEFAULT 0,"
	" replica INTEGER DEFAULT 0,"
	" prompt_tokens INTEGER,"
	" wanted_tokens INTEGER,"
	" output_tokens INTEGER,"
	" cached_tokens INTEGER DEFAULT 0,"
	" recomputed_tokens INTEGER DEFAULT 0,"
	" preemptions INTEGER DEFAULT 0,"
	" chunks INTEGER,"
	" arrival_ns INTEGER,"
	" queue_ns INTEGER,"
	" prefill_ns INTEGER,"
	" decode_ns INTEGER,"
	" preempted_ns INTEGER DEFAULT 0,"
	" preempted_in_prefill_ns INTEGER DEFAULT 0,"
	" held_ns INTEGER DEFAULT 0,"
	" failed_ns INTEGER"
	") STRICT;"

	"CREATE TABLE steps ("
	" id INTEGER PRIMARY KEY," /* run_id * 2^32 + step */
	" start_ns INTEGER,"
	" duration_ns INTEGER,"
	" host_ns INTEGER,"
	" decodes INTEGER,"
	" chunks INTEGER,"
	" output_tokens INTEGER,"
	" prefill_tokens INTEGER,"
	" decode_ctx INTEGER,"
	" running INTEGER,"
	" waiting INTEGER,"
	" preempted INTEGER,"
	" blocks_used INTEGER,"
	" blocks_cached INTEGER,"
	" outside REAL"
	") STRICT;"

	"CREATE TABLE metrics ("
	" run_id INTEGER NOT NULL,"
	" name TEXT NOT NULL,"
	" value REAL," /* NULL: not defined */
	" unit TEXT NOT NULL,"
	" uncertain INTEGER NOT NULL," /* a percentile of too few samples */
	" PRIMARY KEY (run_id, name)"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE request_states (state INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"
	"CREATE TABLE request_whys (why INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"

	/* Joined through the key's range, so that WHERE run_id = N reads only that run's rows. */
	"CREATE VIEW request_detail AS"
	" SELECT r.run_id, q.id - (r.run_id << 32) AS request, r.label,"
	"  coalesce(q.name, CAST(q.source_row AS TEXT)) AS name, s.name AS state, w.name AS why,"
	"  q.session, q.tenant, q.priority, q.replica, q.prompt_tokens, q.wanted_tokens, q.output_tokens, "
	"q.cached_tokens,"
	"  q.recomputed_tokens, q.preemptions, q.chunks, q.arrival_ns, q.queue_ns, q.prefill_ns, q.decode_ns,"
	"  q.preempted_ns, q.queue_ns + q.prefill_ns + q.preempted_in_prefill_ns AS ttft_ns,"
	"  q.queue_ns + q.prefill_ns + q.decode_ns + q.preempted_ns AS e2e_ns, q.held_ns, q.failed_ns"
	" FROM runs r JOIN requests q ON q.id BETWEEN r.run_id << 32 AND (r.run_id << 32) + 4294967295"
	" JOIN request_states s ON s.state = q.state JOIN request_whys w ON w.why = q.why;"

	"CREATE VIEW request_latency AS"
	" SELECT run_id, request, label, name, session, tenant, priority, prompt_tokens, output_tokens, cached_tokens,"
	"  preemptions, arrival_ns / 1e9 AS arrival_s, ttft_ns / 1e6 AS ttft_ms,"
	"  CASE WHEN output_tokens >= 2 THEN (e2e_ns - ttft_ns) / 1e6 / (output_tokens - 1) END AS tpot_ms,"
	"  e2e_ns / 1e6 AS e2el_ms,"
	"  CASE WHEN output_tokens >= 1 THEN e2e_ns / 1e6 / output_tokens END AS normalized_latency_ms,"
	"  queue_ns / 1e6 AS queue_ms, prefill_ns / 1e6 AS prefill_ms, decode_ns / 1e6 AS decode_ms,"
	"  preempted_ns / 1e6 AS preempted_ms"
	" FROM request_detail WHERE state = 'finished';"

	"CREATE VIEW request_failure AS"
	" SELECT run_id, request, label, name, state, why, prompt_tokens, wanted_tokens, output_tokens,"
	"  arrival_ns / 1e9 AS arrival_s, failed_ns / 1e6 AS failed_after_ms"
	" FROM request_detail WHERE state <> 'finished';"

	"CREATE VIEW step_timeline AS"
	" SELECT r.run_id, r.label, t.id - (r.run_id << 32) AS step, t.start_ns / 1e9 AS start_s, t.duration_ns / 1e6 "
	"AS duration_ms,"
	"  t.host_ns / 1e6 AS host_ms, t.decodes, t.chunks, t.output_tokens, t.prefill_tokens, t.decode_ctx, t.running,"
	"  t.waiting, t.preempted, t.blocks_used, t.blocks_cached,"
	"  t.blocks_used * 1.0 / r.num_gpu_blocks AS kv_usage, t.outside"
	" FROM runs r JOIN steps t ON t.id BETWEEN r.run_id << 32 AND (r.run_id << 32) + 4294967295;"

	"CREATE VIEW run_summary AS"
	" SELECT r.run_id, r.started, r.status, r.label, r.policy, r.policy_params, r.model, r.device, r.trace, "
	"r.requests,"
	"  max(m.value) FILTER (WHERE m.name = 'completed') AS completed,"
	"  max(m.value) FILTER (WHERE m.name = 'rejected') AS rejected,"
	"  max(m.value) FILTER (WHERE m.name = 'aborted') AS aborted,"
	"  max(m.value) FILTER (WHERE m.name = 'duration') AS duration_s,"
	"  max(m.value) FILTER (WHERE m.name = 'offered_rate') AS offered_rate,"
	"  max(m.value) FILTER (WHERE m.name = 'request_throughput') AS request_throughput,"
	"  max(m.value) FILTER (WHERE m.name = 'request_goodput') AS request_goodput,"
	"  max(m.value) FILTER (WHERE m.name = 'output_throughput') AS output_throughput,"
	"  max(m.value) FILTER (WHERE m.name = 'mean_ttft_ms') AS mean_ttft_ms,"
	"  max(m.value) FILTER (WHERE m.name = 'p99_ttft_ms') AS p99_ttft_ms,"
	"  max(m.value) FILTER (WHERE m.name = 'mean_tpot_ms') AS mean_tpot_ms,"
	"  max(m.value) FILTER (WHERE m.name = 'p99_tpot_ms') AS p99_tpot_ms,"
	"  max(m.value) FILTER (WHERE m.name = 'mean_itl_ms') AS mean_itl_ms,"
	"  max(m.value) FILTER (WHERE m.name = 'mean_e2el_ms') AS mean_e2el_ms,"
	"  max(m.value) FILTER (WHERE m.name = 'p99_e2el_ms') AS p99_e2el_ms,"
	"  max(m.value) FILTER (WHERE m.name = 'preemptions') AS preemptions,"
	"  max(m.value) FILTER (WHERE m.name = 'prefix_hit_ratio') AS prefix_hit_ratio,"
	"  max(m.value) FILTER (WHERE m.name = 'steps') AS steps,"
	"  r.sim_wall_s, r.workload_hash"
	" FROM runs r LEFT JOIN metrics m USING (run_id) GROUP BY r.run_id;",

	/* 1 -> 2: what ran it, and what is needed to run it again */
	"ALTER TABLE runs ADD COLUMN replicas INTEGER NOT NULL DEFAULT 1;"
	"ALTER TABLE runs ADD COLUMN fleet TEXT;"
	"ALTER TABLE runs ADD COLUMN router TEXT;"
	"ALTER TABLE runs ADD COLUMN router_stale_ns INTEGER;"
	"ALTER TABLE runs ADD COLUMN backend_what TEXT;"
	"ALTER TABLE runs ADD COLUMN weights TEXT;"
	"ALTER TABLE runs ADD COLUMN tokenizer TEXT;"
	"ALTER TABLE runs ADD COLUMN isa TEXT;"
	"ALTER TABLE runs ADD COLUMN threads INTEGER;"
	"ALTER TABLE runs ADD COLUMN exec_time TEXT;"
	"ALTER TABLE runs ADD COLUMN batch_invariant INTEGER;"
	"ALTER TABLE runs ADD COLUMN ignore_eos INTEGER;"
	"ALTER TABLE runs ADD COLUMN temperature REAL;"
	"ALTER TABLE runs ADD COLUMN top_k INTEGER;"
	"ALTER TABLE runs ADD COLUMN top_p REAL;"
	"ALTER TABLE runs ADD COLUMN kv_cache_memory_bytes INTEGER;"
	"ALTER TABLE runs ADD COLUMN enforce_eager INTEGER;" /* NULL: no graphs to do without */
	"ALTER TABLE runs ADD COLUMN arguments TEXT;" /* JSON array: the command line as typed */
	"ALTER TABLE runs ADD COLUMN policy_path TEXT;" /* of a plug-in: the shared object; NULL: built in */
	"ALTER TABLE runs ADD COLUMN policy_digest TEXT;"
	"ALTER TABLE runs ADD COLUMN arm INTEGER;" /* which of its runs this one is */
	"ALTER TABLE runs ADD COLUMN abort_after_s REAL;" /* NULL: never */
	"ALTER TABLE runs ADD COLUMN prefix_cache TEXT;" /* off, hash or radix */
	"ALTER TABLE runs ADD COLUMN prefix_eviction TEXT;" /* lru, lfu, fifo, leaf-lru or cost-aware; NULL without a cache */
	"ALTER TABLE runs ADD COLUMN cache_salt TEXT;" /* none, tenant or session */
	"ALTER TABLE runs ADD COLUMN cache_generated INTEGER;"
	"ALTER TABLE runs ADD COLUMN kv_retention TEXT;" /* full, window or sink-window */
	"ALTER TABLE runs ADD COLUMN kv_window INTEGER;"
	"ALTER TABLE runs ADD COLUMN kv_sink INTEGER;"
	"ALTER TABLE runs ADD COLUMN scheduling_params TEXT;" /* of the order */
	"ALTER TABLE runs ADD COLUMN predictor TEXT;" /* NULL: nothing went by predicted lengths */
	"ALTER TABLE runs ADD COLUMN victim TEXT;"
	"ALTER TABLE runs ADD COLUMN samples INTEGER DEFAULT 1;" /* of each prompt */
	"ALTER TABLE runs ADD COLUMN beam_width INTEGER DEFAULT 1;"
	"ALTER TABLE runs ADD COLUMN beam_every INTEGER;" /* NULL: no beam search */
	"ALTER TABLE runs ADD COLUMN swap_space REAL;" /* GiB */
	"ALTER TABLE runs ADD COLUMN kv_offload_host REAL;" /* GiB */
	"ALTER TABLE runs ADD COLUMN kv_offload_disk REAL;"
	"ALTER TABLE runs ADD COLUMN kv_transfer TEXT;"
	"ALTER TABLE runs ADD COLUMN kv_prefetch INTEGER;"
	"ALTER TABLE runs ADD COLUMN kv_host_bandwidth REAL;" /* GB/s; NULL: the device's */
	"ALTER TABLE runs ADD COLUMN kv_host_latency REAL;" /* us */
	"ALTER TABLE runs ADD COLUMN kv_disk_bandwidth REAL;" /* NULL: 5 GB/s */
	"ALTER TABLE runs ADD COLUMN kv_disk_latency REAL;"
	"ALTER TABLE runs ADD COLUMN decision_hash TEXT;"
	"ALTER TABLE runs ADD COLUMN memory_hash TEXT;"

	"ALTER TABLE steps ADD COLUMN matmul_ns INTEGER;" /* NULL, as are the next three: not measured */
	"ALTER TABLE steps ADD COLUMN attention_ns INTEGER;"
	"ALTER TABLE steps ADD COLUMN head_ns INTEGER;"
	"ALTER TABLE steps ADD COLUMN other_ns INTEGER;"
	"ALTER TABLE steps ADD COLUMN transfer_ns INTEGER;" /* it only waited for copies between tiers; NULL: not at all */
	"DROP VIEW step_timeline;"
	"CREATE VIEW step_timeline AS"
	" SELECT r.run_id, r.label, t.id - (r.run_id << 32) AS step, t.start_ns / 1e9 AS start_s,"
	"  t.duration_ns / 1e6 AS duration_ms, t.host_ns / 1e6 AS host_ms, t.decodes, t.chunks, t.output_tokens,"
	"  t.prefill_tokens, t.decode_ctx, t.running, t.waiting, t.preempted, t.blocks_used, t.blocks_cached,"
	"  t.blocks_used * 1.0 / r.num_gpu_blocks AS kv_usage, t.outside, t.matmul_ns / 1e6 AS matmul_ms,"
	"  t.attention_ns / 1e6 AS attention_ms, t.head_ns / 1e6 AS head_ms, t.other_ns / 1e6 AS other_ms,"
	"  coalesce(t.transfer_ns, 0) / 1e6 AS transfer_ms"
	" FROM runs r JOIN steps t ON t.id BETWEEN r.run_id << 32 AND (r.run_id << 32) + 4294967295;"

	/* Many steps in stretches of time: analysis/store_outline.h. */
	"CREATE TABLE step_outline ("
	" id INTEGER PRIMARY KEY," /* run_id * 2^32 + stretch, which begins at stretch * width_ns */
	" width_ns INTEGER NOT NULL,"
	" n INTEGER NOT NULL" OUTLINE_COLUMNS ") STRICT;" /* n: steps that began in it */

	/* Requests whose KV went to another tier of memory and came back. */
	"ALTER TABLE requests ADD COLUMN swaps INTEGER DEFAULT 0;"
	"ALTER TABLE requests ADD COLUMN transfer_ns INTEGER DEFAULT 0;"
	"ALTER TABLE requests ADD COLUMN transfer_in_prefill_ns INTEGER DEFAULT 0;"
	"DROP VIEW request_detail;"
	"CREATE VIEW request_detail AS"
	" SELECT r.run_id, q.id - (r.run_id << 32) AS request, r.label,"
	"  coalesce(q.name, CAST(q.source_row AS TEXT)) AS name, s.name AS state, w.name AS why,"
	"  q.session, q.tenant, q.priority, q.replica, q.prompt_tokens, q.wanted_tokens, q.output_tokens, "
	"q.cached_tokens,"
	"  q.recomputed_tokens, q.preemptions, q.swaps, q.chunks, q.arrival_ns, q.queue_ns, q.prefill_ns, q.decode_ns,"
	"  q.preempted_ns, q.transfer_ns,"
	"  q.queue_ns + q.prefill_ns + q.preempted_in_prefill_ns + q.transfer_in_prefill_ns AS ttft_ns,"
	"  q.queue_ns + q.prefill_ns + q.decode_ns + q.preempted_ns + q.transfer_ns AS e2e_ns, q.held_ns, q.failed_ns"
	" FROM runs r JOIN requests q ON q.id BETWEEN r.run_id << 32 AND (r.run_id << 32) + 4294967295"
	" JOIN request_states s ON s.state = q.state JOIN request_whys w ON w.why = q.why;"
	"DROP VIEW request_latency;"
	"CREATE VIEW request_latency AS"
	" SELECT run_id, request, label, name, session, tenant, priority, prompt_tokens, output_tokens, cached_tokens,"
	"  preemptions, arrival_ns / 1e9 AS arrival_s, ttft_ns / 1e6 AS ttft_ms,"
	"  CASE WHEN output_tokens >= 2 THEN (e2e_ns - ttft_ns) / 1e6 / (output_tokens - 1) END AS tpot_ms,"
	"  e2e_ns / 1e6 AS e2el_ms,"
	"  CASE WHEN output_tokens >= 1 THEN e2e_ns / 1e6 / output_tokens END AS normalized_latency_ms,"
	"  queue_ns / 1e6 AS queue_ms, prefill_ns / 1e6 AS prefill_ms, decode_ns / 1e6 AS decode_ms,"
	"  preempted_ns / 1e6 AS preempted_ms, transfer_ns / 1e6 AS transfer_ms"
	" FROM request_detail WHERE state = 'finished';"

	/* Conversations and workflows, from the first arrival to the last finish, the time of tools included. */
	"CREATE VIEW session_latency AS"
	" SELECT run_id, label, session, count(*) AS requests, sum(state = 'finished') AS finished,"
	"  sum(prompt_tokens) AS prompt_tokens, sum(output_tokens) AS output_tokens, sum(cached_tokens) AS "
	"cached_tokens,"
	"  max(prompt_tokens) AS longest_prompt, min(arrival_ns) / 1e9 AS first_arrival_s,"
	"  CASE WHEN sum(state <> 'finished') = 0 THEN (max(arrival_ns + e2e_ns) - min(arrival_ns)) / 1e6 END AS "
	"makespan_ms,"
	"  avg(ttft_ns) FILTER (WHERE state = 'finished') / 1e6 AS mean_ttft_ms,"
	"  avg(e2e_ns) FILTER (WHERE state = 'finished') / 1e6 AS mean_e2el_ms,"
	"  sum(queue_ns) FILTER (WHERE state = 'finished') / 1e6 AS queue_ms"
	" FROM request_detail WHERE session IS NOT NULL GROUP BY run_id, session;"

	/* Measured times of a step's parts: sim/profile.h. */
	"CREATE TABLE profiles ("
	" profile_id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" name TEXT UNIQUE,"
	" model TEXT,"
	" weight_dtype TEXT,"
	" kv_cache_dtype TEXT,"
	" device TEXT,"
	" machine TEXT,"
	" library TEXT,"
	" created TEXT,"
	" program_version TEXT,"
	" source TEXT,"
	" note TEXT,"
	" layers INTEGER,"
	" threads INTEGER,"
	" block_size INTEGER,"
	" tensor_parallel_size INTEGER,"
	" window INTEGER,"
	" partial INTEGER,"
	" measured_layers INTEGER,"
	" shape TEXT NOT NULL,"
	" hash TEXT NOT NULL"
	") STRICT;"

	"CREATE TABLE profile_points ("
	" profile_id INTEGER NOT NULL,"
	" op TEXT NOT NULL,"
	" x INTEGER NOT NULL,"
	" y INTEGER NOT NULL,"
	" ns REAL NOT NULL," /* median */
	" low_ns REAL NOT NULL,"
	" high_ns REAL NOT NULL,"
	" repeats INTEGER NOT NULL,"
	" PRIMARY KEY (profile_id, op, x, y)"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE profile_steps ("
	" profile_id INTEGER NOT NULL,"
	" place INTEGER NOT NULL,"
	" decodes INTEGER NOT NULL,"
	" decode_mean INTEGER NOT NULL,"
	" chunk INTEGER NOT NULL,"
	" chunk_start INTEGER NOT NULL,"
	" sampled INTEGER NOT NULL,"
	" repeats INTEGER NOT NULL,"
	" ns REAL NOT NULL,"
	" low_ns REAL NOT NULL,"
	" high_ns REAL NOT NULL,"
	" PRIMARY KEY (profile_id, place)"
	") STRICT, WITHOUT ROWID;"

	"ALTER TABLE runs ADD COLUMN profile_id INTEGER;" /* cost model profiled: the profile it took */
	"ALTER TABLE runs ADD COLUMN profile_hash TEXT;"

	/* What the engine took from its backend: exec/tape.h. */
	"CREATE TABLE inputs ("
	" id INTEGER PRIMARY KEY," /* run_id * 2^32 + place */
	/* 0 = the clock was read, 1 = a step came back, 2 = a copy between tiers was done */
	" kind INTEGER NOT NULL,"
	" a_ns INTEGER NOT NULL," /* the reading; the step's start; the copy's ticket */
	" b_ns INTEGER,"
	" host_ns INTEGER,"
	" batch INTEGER," /* digest of what the engine submitted */
	" outside REAL,"
	" parts BLOB," /* four times in ns, int64 little-endian; NULL = not measured */
	" eos BLOB," /* requests, int32 little-endian; NULL = none */
	" transfer_ns INTEGER" /* part of a step in which it only waited for copies between tiers; NULL = none */
	") STRICT;"

	/* The token ids that requests were answered with. */
	"CREATE TABLE outputs ("
	" id INTEGER PRIMARY KEY," /* run_id * 2^32 + request */
	" tokens BLOB NOT NULL" /* int32 little-endian */
	") STRICT;"

	/* Executed against simulated: analysis/validate.h. */
	"CREATE TABLE validations ("
	" validation_id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" status TEXT NOT NULL CHECK (status IN ('complete', 'interrupted', 'stalled', 'failed')),"
	" status_text TEXT,"
	" validated TEXT," /* UTC */
	" program_version TEXT NOT NULL,"
	" label TEXT NOT NULL,"
	" policy TEXT NOT NULL,"
	" executed_run_id INTEGER," /* NULL: not stored */
	" simulated_run_id INTEGER,"
	" cost TEXT,"
	" load REAL," /* share of the capacity asked for; NULL: not asked */
	" capacity REAL,"
	" offered_rate REAL,"
	" executions INTEGER NOT NULL,"
	" decisions_identical INTEGER," /* NULL: not looked at */
	" memory_identical INTEGER,"
	" parted TEXT," /* where, when they do */
	" steps INTEGER,"
	" step_mape REAL,"
	" executor_spread REAL,"
	" outside_steps INTEGER,"
	" max_error REAL,"
	" beyond INTEGER," /* figures further off than that and their spread; NULL: no limit was given */
	" passed INTEGER NOT NULL,"
	" machine TEXT,"
	" cpu_load REAL,"
	" others REAL," /* percent of all CPU time */
	" steal REAL,"
	" executed_s REAL,"
	" result TEXT NOT NULL" /* the JSON object */
	") STRICT;"
	"CREATE TABLE validation_errors ("
	" validation_id INTEGER NOT NULL,"
	" what TEXT NOT NULL," /* step, part, queue, prefill, ttft, tpot, e2e, request_throughput, output_throughput */
	" part TEXT NOT NULL," /* of steps: all, prefill, decode, mixed; of parts: which; else '' */
	" statistic TEXT NOT NULL,"
	" measured REAL," /* ns; throughputs: per second */
	" simulated REAL,"
	" error REAL," /* percent */
	" spread REAL,"
	" samples INTEGER NOT NULL,"
	" uncertain INTEGER NOT NULL,"
	" PRIMARY KEY (validation_id, what, part, statistic)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE validation_steps ("
	" validation_id INTEGER NOT NULL,"
	" step INTEGER NOT NULL," /* of the executed run */
	" kind TEXT NOT NULL," /* prefill, decode, mixed */
	" measured_ns REAL,"
	" predicted_ns REAL,"
	" again_ns REAL," /* executed once more; NULL: not reached */
	" PRIMARY KEY (validation_id, step)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX validations_executed ON validations (executed_run_id);"

	/* Cost parameters fitted to measured logs: analysis/calibrate.h. */
	"CREATE TABLE calibrations ("
	" calibration_id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" calibrated TEXT," /* UTC */
	" program_version TEXT NOT NULL,"
	" measured TEXT NOT NULL," /* the log: a path, or run:ID */
	" measured_format TEXT NOT NULL,"
	" model TEXT NOT NULL,"
	" device TEXT NOT NULL,"
	" policy TEXT NOT NULL,"
	" workload_hash TEXT NOT NULL,"
	" requests INTEGER NOT NULL,"
	" fitted_requests INTEGER NOT NULL,"
	" seed TEXT NOT NULL,"
	" cost TEXT NOT NULL," /* for --cost-model */
	" simulations INTEGER NOT NULL,"
	" wall_s REAL NOT NULL,"
	" interrupted INTEGER NOT NULL,"
	" result TEXT NOT NULL" /* the JSON object */
	") STRICT;"

	"CREATE TABLE calibration_params ("
	" calibration_id INTEGER NOT NULL REFERENCES calibrations (calibration_id) ON DELETE CASCADE,"
	" name TEXT NOT NULL,"
	" unit TEXT NOT NULL,"
	" fitted INTEGER NOT NULL,"
	" initial REAL NOT NULL,"
	" value REAL NOT NULL,"
	" low REAL NOT NULL," /* one standard deviation to either side */
	" high REAL NOT NULL,"
	" undetermined TEXT," /* why it was left as it was */
	" PRIMARY KEY (calibration_id, name)"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE calibration_errors ("
	" calibration_id INTEGER NOT NULL REFERENCES calibrations (calibration_id) ON DELETE CASCADE,"
	" part TEXT NOT NULL CHECK (part IN ('fitted', 'held_out')),"
	" metric TEXT NOT NULL,"
	" stat TEXT NOT NULL,"
	" measured_ms REAL,"
	" before_percent REAL,"
	" after_percent REAL,"
	" PRIMARY KEY (calibration_id, part, metric, stat)"
	") STRICT, WITHOUT ROWID;"

	/* Experiments and their points: analysis/sweep_plan.h. */
	"CREATE TABLE sweeps ("
	" sweep_id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" started TEXT," /* UTC */
	" program_version TEXT NOT NULL,"
	" name TEXT NOT NULL,"
	" about TEXT,"
	" experiment TEXT NOT NULL" /* the JSON object */
	") STRICT;"

	"CREATE TABLE sweep_points ("
	" sweep_id INTEGER NOT NULL REFERENCES sweeps (sweep_id) ON DELETE CASCADE,"
	" position INTEGER NOT NULL," /* in the experiment, from 1 */
	" key TEXT NOT NULL," /* digest of what decides the result */
	" flags TEXT NOT NULL," /* JSON array: the words for lockstep replay */
	" run_id INTEGER REFERENCES runs (run_id) ON DELETE SET NULL,"
	" status TEXT NOT NULL CHECK (status IN ('complete', 'failed', 'crashed')),"
	" status_text TEXT," /* why it failed */
	" wall_s REAL," /* what it took, loading the trace included */
	" PRIMARY KEY (sweep_id, position)"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX sweep_points_key ON sweep_points (key);"

	/* What meets objectives: analysis/slo.h. */
	"CREATE TABLE slo_searches ("
	" search_id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" searched TEXT," /* UTC */
	" program_version TEXT NOT NULL,"
	" find TEXT NOT NULL CHECK (find IN ('rate', 'replicas')),"
	" goodput TEXT NOT NULL," /* the objectives, as --goodput takes them */
	" attainment REAL NOT NULL,"
	" request_rate REAL," /* offered; NULL: it is what is looked for */
	" trace_request_rate REAL NOT NULL,"
	" trace TEXT,"
	" trace_hash TEXT,"
	" workload_hash TEXT NOT NULL,"
	" requests INTEGER NOT NULL,"
	" seed TEXT NOT NULL,"
	" arguments TEXT," /* JSON array: the command line */
	" interrupted INTEGER NOT NULL"
	") STRICT;"

	"CREATE TABLE slo_configurations ("
	" search_id INTEGER NOT NULL REFERENCES slo_searches (search_id) ON DELETE CASCADE,"
	" position INTEGER NOT NULL," /* from 1 */
	" label TEXT NOT NULL,"
	" policy TEXT NOT NULL,"
	" policy_params TEXT,"
	" model TEXT,"
	" device TEXT,"
	" tensor_parallel_size INTEGER NOT NULL,"
	" replicas INTEGER," /* find replicas: the fewest that pass, NULL when none do */
	" router TEXT,"
	" outcome TEXT NOT NULL CHECK (outcome IN ('bracketed', 'never', 'always', 'impossible')),"
	" why TEXT,"
	" request_rate REAL," /* where it passes; the columns up to state are of there */
	" fails_at REAL," /* lowest rate, or most replicas, that fails */
	" sure_low REAL," /* with 95 % confidence between */
	" sure_high REAL,"
	" monotone INTEGER NOT NULL,"
	" attainment REAL,"
	" p99_ttft_ms REAL,"
	" p99_tpot_ms REAL,"
	" state TEXT,"
	" limited_by TEXT," /* where it fails */
	" price_per_hour REAL,"
	" dollars_per_good_request REAL,"
	" dollars_per_million_input_tokens REAL,"
	" dollars_per_million_output_tokens REAL,"
	" joules_per_good_request REAL,"
	" on_cost_front INTEGER NOT NULL,"
	" on_latency_front INTEGER NOT NULL,"
	" on_price_front INTEGER NOT NULL,"
	" wall_s REAL NOT NULL,"
	" PRIMARY KEY (search_id, position)"
	") STRICT, WITHOUT ROWID;"

	"CREATE TABLE slo_points ("
	" search_id INTEGER NOT NULL,"
	" position INTEGER NOT NULL,"
	" point INTEGER NOT NULL," /* in order of rate or replicas, from 1 */
	" request_rate REAL NOT NULL,"
	" replicas INTEGER NOT NULL,"
	" attainment REAL NOT NULL," /* of one cut short: at most that */
	" margin REAL,"
	" passes INTEGER NOT NULL,"
	" cut_short INTEGER NOT NULL,"
	" good INTEGER NOT NULL," /* of all classes */
	" p99_ttft_ms REAL,"
	" p99_tpot_ms REAL,"
	" request_throughput REAL,"
	" joules_per_good_request REAL,"
	" state TEXT NOT NULL,"
	" limited_by TEXT NOT NULL,"
	" PRIMARY KEY (search_id, position, point),"
	" FOREIGN KEY (search_id, position) REFERENCES slo_configurations ON DELETE CASCADE"
	") STRICT, WITHOUT ROWID;",
};
#define VERSION ((int)(sizeof migrations / sizeof *migrations))

static int pragma_int(struct store *s, const char *sql, int64_t *v, struct err *e)
{
	sqlite3_stmt *q;
	int rc = store_prepare(s, &q, sql, "reading its version", e);
	if (rc)
		return rc;
	if (sqlite3_step(q) == SQLITE_ROW)
		*v = sqlite3_column_int64(q, 0);
	else
		rc = store_fail(s, e, "reading its version");
	sqlite3_finalize(q);
	return rc;
}

/* *empty: a new file, or one without any table. */
int store_check_version(struct store *s, bool *empty, struct err *e)
{
	int64_t tables = 0, id = 0, version = 0;
	int rc = pragma_int(s, "SELECT count(*) FROM sqlite_schema", &tables, e);
	if (rc == ERR_NONE)
		rc = pragma_int(s, "PRAGMA application_id", &id, e);
	if (rc == ERR_NONE)
		rc = pragma_int(s, "PRAGMA user_version", &version, e);
	if (rc)
		return rc;
	*empty = tables == 0;
	if (!*empty && id != APPLICATION_ID)
		return err_set(e, ERR_INPUT,
			       "%s: an SQLite database, but not one of Lockstep's; choose another file with --db",
			       s->path);
	if (version > VERSION)
		return err_set(
			e, ERR_INPUT,
			"%s: made by a newer Lockstep (schema version %lld; this one knows %d): update Lockstep or "
			"choose another file with --db",
			s->path, (long long)version, VERSION);
	return ERR_NONE;
}

int store_check_recent(struct store *s, int64_t version, struct err *e)
{
	int64_t has = 0;
	int rc = pragma_int(s, "PRAGMA user_version", &has, e);
	if (rc == ERR_NONE && has < version)
		rc = err_set(e, ERR_INPUT,
			     "%s: made by an older Lockstep, which did not store this (schema version %lld, not %lld); "
			     "storing a run in it brings it up to date, but not the runs it has",
			     s->path, (long long)has, (long long)version);
	return rc;
}

/* The words for state and why, from the code that owns them. */
static int fill_names(struct store *s, struct err *e)
{
	char sql[160];
	int rc = ERR_NONE;
	for (int i = REQUEST_PENDING; rc == ERR_NONE && i <= REQUEST_ABORTED; i++) {
		sqlite3_snprintf(sizeof sql, sql, "INSERT OR REPLACE INTO request_states VALUES (%d, %Q)", i,
				 request_state_name((enum request_state)i));
		rc = store_exec(s, sql, "creating its tables", e);
	}
	for (int i = REQUEST_WHY_NONE; rc == ERR_NONE && i < REQUEST_WHYS; i++) {
		sqlite3_snprintf(sizeof sql, sql, "INSERT OR REPLACE INTO request_whys VALUES (%d, %Q)", i,
				 request_why_name((enum request_why)i));
		rc = store_exec(s, sql, "creating its tables", e);
	}
	return rc;
}

static int apply(struct store *s, int64_t version, int64_t to, struct err *e)
{
	int rc = ERR_NONE;
	for (; rc == ERR_NONE && version < to; version++)
		rc = store_exec(s, migrations[version], "creating its tables", e);
	if (rc == ERR_NONE)
		rc = fill_names(s, e);
	if (rc)
		return rc;
	char sql[96];
	snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID, (int)to);
	return store_exec(s, sql, "creating its tables", e);
}

int store_migrate(struct store *s, struct err *e)
{
	return store_migrate_to(s, VERSION, e);
}

int store_migrate_to(struct store *s, int64_t to, struct err *e)
{
	int64_t version = 0;
	int rc = pragma_int(s, "PRAGMA user_version", &version, e);
	if (rc || version == to)
		return rc;
	rc = store_exec(s, "BEGIN IMMEDIATE", "creating its tables", e);
	if (rc)
		return rc;
	/* Another process may have been quicker. */
	rc = pragma_int(s, "PRAGMA user_version", &version, e);
	if (rc == ERR_NONE && version < to)
		rc = apply(s, version, to, e);
	if (rc == ERR_NONE)
		rc = store_exec(s, "COMMIT", "creating its tables", e);
	if (rc)
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return rc;
}
