/* timeline_trace.c: a timeline in Chrome's Trace Event Format, JSON object form, which Perfetto reads as well.
 *
 * The format is that of "Trace Event Format" (Google, the document Chromium's catapult points to); Perfetto supports it with
 * limits of its own (perfetto.dev/docs/getting-started/other-formats, and its FAQ on overlapping events):
 *   - ts is in microseconds; digits behind the point are nanoseconds.
 *   - Slices of a track (pid, tid) must nest. They are written as pairs B, E and not as X with a duration: ts + dur is a sum of
 *     rounded numbers, by which readers see neighbours overlap by a nanosecond; two equal ts stay equal.
 *   - B and E of a track stand in order of time, an E before the B of the same moment.
 *   - pid 0 and tid 0 mean something to Perfetto: ours begin at 1, and no tid is used in two processes.
 *   - Metadata (M) names processes and tracks and says in which order they are shown. */
#include <inttypes.h>
#include <string.h>

#include "analysis/jout.h"
#include "analysis/save.h"
#include "analysis/text.h"
#include "analysis/timeline.h"
#include "core/err.h"

struct writer {
	const struct timeline *t;
	struct jout j;
	int64_t from_ns, to_ns; /* all is cut to this */
};

/* --- events ------------------------------------------------------------------------------------------------------- */

static int64_t clip(const struct writer *w, int64_t t_ns)
{
	return t_ns < w->from_ns ? w->from_ns : t_ns > w->to_ns ? w->to_ns : t_ns;
}

static int pid_of(int32_t replica)
{
	return replica + 1;
}

/* The engine's track is its process's main one. */
static int64_t engine_tid(int32_t replica)
{
	return pid_of(replica);
}

static int64_t request_tid(const struct timeline *t, const struct timeline_request *r)
{
	return (int64_t)timeline_replicas(t) + 1 + r->q.index;
}

/* Begins an event and leaves it open: args may follow, then event_end. */
static void event_begin(struct jout *j, const char *ph, int pid, int64_t tid)
{
	jout_begin(j, NULL, '{');
	jout_text(j, "ph", ph);
	jout_int(j, "pid", pid);
	jout_int(j, "tid", tid);
}

static void event_end(struct jout *j)
{
	jout_end(j, '}');
}

static void put_ts(struct jout *j, int64_t t_ns)
{
	char text[40];
	snprintf(text, sizeof text, "%" PRId64 ".%03d", t_ns / 1000, (int)(t_ns % 1000));
	jout_raw(j, "ts", text);
}

static void timed(struct writer *w, const char *ph, int pid, int64_t tid, int64_t t_ns)
{
	event_begin(&w->j, ph, pid, tid);
	put_ts(&w->j, clip(w, t_ns));
}

static void begin_slice(struct writer *w, int pid, int64_t tid, int64_t t_ns, const char *name, const char *cat)
{
	timed(w, "B", pid, tid, t_ns);
	jout_text(&w->j, "name", name);
	jout_text(&w->j, "cat", cat);
	jout_begin(&w->j, "args", '{');
}

static void end_args(struct writer *w)
{
	jout_end(&w->j, '}');
	event_end(&w->j);
}

static void end_slice(struct writer *w, int pid, int64_t tid, int64_t t_ns)
{
	timed(w, "E", pid, tid, t_ns);
	event_end(&w->j);
}

static void ms(struct jout *j, const char *key, int64_t ns)
{
	if (ns)
		jout_real(j, key, (double)ns / 1e6);
}

static void count(struct jout *j, const char *key, int64_t v)
{
	if (v)
		jout_int(j, key, v);
}

static void name_it(struct writer *w, const char *what, int pid, int64_t tid, const char *name)
{
	event_begin(&w->j, "M", pid, tid);
	jout_text(&w->j, "name", what);
	jout_begin(&w->j, "args", '{');
	jout_text(&w->j, strcmp(what, "process_labels") == 0 ? "labels" : "name", name);
	end_args(w);
}

static void sort_it(struct writer *w, const char *what, int pid, int64_t tid, int64_t index)
{
	event_begin(&w->j, "M", pid, tid);
	jout_text(&w->j, "name", what);
	jout_begin(&w->j, "args", '{');
	jout_int(&w->j, "sort_index", index);
	end_args(w);
}

/* --- what was left out -------------------------------------------------------------------------------------------- */

void timeline_left_out(const struct timeline *t, char *buf, size_t size)
{
	char a[TEXT_NUMBER], b[TEXT_NUMBER], c[TEXT_NUMBER];
	size_t at = (size_t)snprintf(buf, size, "%s%s of the %s requests there were in it",
				     t->n < t->in_window ? "" : "all ", t->n < t->in_window ? text_count(t->n, a) : "",
				     text_count(t->in_window, b));
	if (t->n < t->in_window)
		at += (size_t)snprintf(buf + at, size - at, " (%s)",
				       t->o.slowest ? "the slowest" : "the first to arrive");
	else
		at = (size_t)snprintf(buf, size, "all %s requests there were in it", text_count(t->in_window, b));
	int64_t per, steps = timeline_steps(t, &per);
	if (per > 1)
		at += (size_t)snprintf(buf + at, size - at, "; %s steps in groups of %s", text_count(steps, a),
				       text_count(per, c));
	else if (steps)
		at += (size_t)snprintf(buf + at, size - at, "; all %s steps", text_count(steps, a));
	else
		at += (size_t)snprintf(buf + at, size - at, "; no steps (none were recorded)");
	if (t->phases_left_out)
		snprintf(buf + at, size - at, "; without the last %s phases", text_count(t->phases_left_out, a));
}

/* --- processes and tracks ----------------------------------------------------------------------------------------- */

static void name_process(struct writer *w, int32_t m)
{
	const struct stored_run *run = &w->t->run;
	char label[TEXT_CLEAN], device[TEXT_CLEAN], name[3 * TEXT_CLEAN], left[256];
	text_clean(run->label ? run->label : "run", label, sizeof label);
	text_clean(run->device ? run->device : "", device, sizeof device);
	if (timeline_replicas(w->t) > 1)
		snprintf(name, sizeof name, "replica %d: %s%s%s", m, label, *device ? " on " : "", device);
	else
		snprintf(name, sizeof name, "%s%s%s", label, *device ? " on " : "", device);
	name_it(w, "process_name", pid_of(m), engine_tid(m), name);
	timeline_left_out(w->t, left, sizeof left);
	name_it(w, "process_labels", pid_of(m), engine_tid(m), left);
	sort_it(w, "process_sort_index", pid_of(m), engine_tid(m), m);
	name_it(w, "thread_name", pid_of(m), engine_tid(m),
		timeline_steps(w->t, NULL) ? "engine" : "engine (no steps recorded)");
	sort_it(w, "thread_sort_index", pid_of(m), engine_tid(m), 0);
}

static void name_tracks(struct writer *w)
{
	const struct timeline *t = w->t;
	char name[TEXT_CLEAN + 16];
	for (int32_t m = 0; m < timeline_replicas(t); m++)
		name_process(w, m);
	for (int64_t i = 0; i < t->n; i++) {
		const struct timeline_request *r = &t->requests[i];
		snprintf(name, sizeof name, "request %s", timeline_name(t, r));
		name_it(w, "thread_name", pid_of(r->q.replica), request_tid(t, r), name);
		sort_it(w, "thread_sort_index", pid_of(r->q.replica), request_tid(t, r), 1 + i);
	}
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

static void request_args(struct writer *w, const struct timeline_request *r)
{
	struct jout *j = &w->j;
	const struct stored_request *q = &r->q;
	jout_int(j, "request", q->index);
	jout_text(j, "state", request_state_name(q->state));
	if (q->why)
		jout_text(j, "why", request_why_name(q->why));
	if (r->tenant_at >= 0)
		jout_text(j, "tenant", w->t->texts + r->tenant_at);
	count(j, "priority", q->priority);
	jout_int(j, "prompt_tokens", q->prompt_tokens);
	jout_int(j, "output_tokens", q->output_tokens);
	count(j, "cached_tokens", q->cached_tokens);
	count(j, "recomputed_tokens", q->recomputed_tokens);
	count(j, "preemptions", q->preemptions);
	count(j, "swaps", q->swaps);
	count(j, "chunks", q->chunks);
	if (stored_request_finished(q)) {
		ms(j, "ttft_ms", stored_request_ttft_ns(q));
		ms(j, "e2el_ms", stored_request_e2e_ns(q));
		ms(j, "queue_ms", q->queue_ns);
		ms(j, "prefill_ms", q->prefill_ns);
		ms(j, "decode_ms", q->decode_ns);
		ms(j, "preempted_ms", q->preempted_ns);
		ms(j, "transfer_ms", q->transfer_ns);
	}
	if (q->arrival_ns < w->from_ns || r->end_ns > w->to_ns)
		jout_bool(j, "cut", true);
}

static void causes(struct jout *j, const struct phase *p)
{
	int64_t all = 0;
	for (int i = 0; i < WAIT_CAUSES; i++)
		all += p->waited_ns[i];
	if (!all)
		return;
	jout_begin(j, "waited_for_ms", '{');
	for (int i = 0; i < WAIT_CAUSES; i++)
		ms(j, wait_cause_names[i], p->waited_ns[i]);
	jout_end(j, '}');
}

static void phase_args(struct writer *w, const struct phase *p)
{
	struct jout *j = &w->j;
	count(j, "tokens", p->tokens);
	count(j, "computed_again", p->again);
	if (p->first_step >= 0)
		jout_int(j, "step", p->first_step);
	if (p->last_step > p->first_step)
		jout_int(j, "last_step", p->last_step);
	if (p->by >= 0)
		jout_int(j, "for_request", p->by);
	causes(j, p);
	if (p->open) /* it went on; nobody looked any further */
		jout_bool(j, "cut", true);
	else
		ms(j, "ms", p->end_ns - p->begin_ns);
}

static void phases(struct writer *w, const struct timeline_request *r, int pid, int64_t tid)
{
	for (int64_t i = r->first; i < r->first + r->n; i++) {
		const struct phase *p = &w->t->phases[i];
		if (p->begin_ns >= w->to_ns || p->end_ns <= w->from_ns)
			continue;
		begin_slice(w, pid, tid, p->begin_ns, phase_names[p->kind], "phase");
		phase_args(w, p);
		end_args(w);
		end_slice(w, pid, tid, p->end_ns);
	}
}

/* How it ended, where it did not finish. */
static void failure(struct writer *w, const struct timeline_request *r, int pid, int64_t tid)
{
	char name[96];
	if (r->q.failed_ns < 0 || r->end_ns < w->from_ns || r->end_ns > w->to_ns)
		return;
	snprintf(name, sizeof name, "%s: %s", request_state_name(r->q.state), request_why_name(r->q.why));
	timed(w, "i", pid, tid, r->end_ns);
	jout_text(&w->j, "name", name);
	jout_text(&w->j, "cat", "request");
	jout_text(&w->j, "s", "t");
	event_end(&w->j);
}

static void request(struct writer *w, const struct timeline_request *r)
{
	int pid = pid_of(r->q.replica);
	int64_t tid = request_tid(w->t, r);
	begin_slice(w, pid, tid, r->q.arrival_ns, timeline_name(w->t, r), "request");
	request_args(w, r);
	end_args(w);
	phases(w, r, pid, tid);
	failure(w, r, pid, tid);
	end_slice(w, pid, tid, r->end_ns);
}

/* --- steps and counters ------------------------------------------------------------------------------------------- */

static const char *step_name(const struct step_group *g)
{
	return g->chunks && g->decodes ? "mixed" : g->chunks ? "prefill" : "decode";
}

static void step_args(struct writer *w, const struct step_group *g)
{
	struct jout *j = &w->j;
	jout_int(j, "step", g->first);
	if (g->steps > 1) {
		jout_int(j, "steps", g->steps);
		ms(j, "busy_ms", g->busy_ns);
		ms(j, "longest_ms", g->longest_ns);
	}
	jout_int(j, "decodes", g->decodes);
	count(j, "chunks", g->chunks);
	count(j, "prefill_tokens", g->prefill_tokens);
	jout_int(j, "output_tokens", g->sampled);
	count(j, "preempted", g->preempted);
	ms(j, "host_ms", g->host_ns);
	ms(j, "transfer_ms", g->transfer_ns);
}

static void counter(struct writer *w, int32_t m, int64_t t_ns, const char *name, const char *a, int64_t va,
		    const char *b, int64_t vb)
{
	timed(w, "C", pid_of(m), engine_tid(m), t_ns);
	jout_text(&w->j, "name", name);
	jout_begin(&w->j, "args", '{');
	jout_int(&w->j, a, va);
	if (b)
		jout_int(&w->j, b, vb);
	end_args(w);
}

static void counters(struct writer *w, int32_t m, int64_t t_ns, const struct step_group *g)
{
	counter(w, m, t_ns, "waiting", "requests", g->waiting, NULL, 0);
	counter(w, m, t_ns, "running", "requests", g->running, NULL, 0);
	counter(w, m, t_ns, "batch", "decodes", g->decodes_most, "prefill tokens", g->prefill_most);
	if (w->t->run.num_gpu_blocks)
		counter(w, m, t_ns, "KV blocks", "used", g->blocks_used, "cached", g->blocks_cached);
}

/* From t_ns on nothing ran; `before` is what did. */
static void idle(struct writer *w, int32_t m, int64_t t_ns, const struct step_group *before)
{
	counters(w, m, t_ns, &(struct step_group){.blocks_cached = before->blocks_cached});
}

/* Steps may overlap where one is planned while another runs: a track holds one at a time. */
static void steps(struct writer *w, int32_t m)
{
	const struct step_groups *s = &w->t->steps[m];
	int64_t free_ns = INT64_MIN;
	for (int64_t i = 0; i < s->n; i++) {
		const struct step_group *g = &s->at[i];
		int64_t start = g->start_ns > free_ns ? g->start_ns : free_ns,
			end = g->end_ns > start ? g->end_ns : start;
		if (i && start > free_ns)
			idle(w, m, free_ns, &s->at[i - 1]);
		counters(w, m, start, g);
		begin_slice(w, pid_of(m), engine_tid(m), start, g->steps > 1 ? "steps" : step_name(g), "step");
		step_args(w, g);
		end_args(w);
		end_slice(w, pid_of(m), engine_tid(m), end);
		free_ns = end;
	}
	if (s->n)
		idle(w, m, free_ns, &s->at[s->n - 1]);
}

static void load(struct writer *w)
{
	for (int64_t i = 0; i < w->t->n_load; i++) {
		const struct timeline_load *l = &w->t->load[i];
		counter(w, l->replica, l->t_ns, "waiting", "requests", l->waiting, NULL, 0);
		counter(w, l->replica, l->t_ns, "running", "requests", l->running, NULL, 0);
	}
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static void about(struct writer *w)
{
	struct jout *j = &w->j;
	const struct timeline *t = w->t;
	const struct stored_run *run = &t->run;
	char left[256];
	timeline_left_out(t, left, sizeof left);
	jout_begin(j, "otherData", '{');
	jout_text(j, "program", "lockstep " LOCKSTEP_VERSION);
	jout_int(j, "run_id", run->run_id);
	jout_text(j, "status", run->status);
	jout_text(j, "label", run->label);
	jout_text(j, "policy", run->policy);
	jout_text(j, "policy_params", run->policy_params);
	jout_text(j, "model", run->model);
	jout_text(j, "device", run->device);
	jout_text(j, "trace", run->trace);
	jout_text(j, "started", run->started);
	jout_int(j, "replicas", timeline_replicas(t));
	jout_int(j, "num_gpu_blocks", run->num_gpu_blocks);
	jout_int(j, "block_size", run->block_size);
	jout_real(j, "from_s", (double)w->from_ns / 1e9);
	jout_real(j, "to_s", (double)w->to_ns / 1e9);
	jout_text(j, "phases", t->exact ? "of the decision log (the run was made again)" : "of stored totals");
	jout_int(j, "requests", t->n);
	jout_int(j, "requests_in_window", t->in_window);
	jout_int(j, "requests_in_run", run->requests);
	int64_t per;
	jout_int(j, "steps", timeline_steps(t, &per));
	jout_int(j, "steps_per_slice", per);
	jout_text(j, "shown", left);
	jout_end(j, '}');
}

static int write_trace(FILE *f, void *ctx, struct err *e)
{
	struct writer *w = ctx;
	char *unused;
	jout_open(&w->j, f);
	jout_begin(&w->j, NULL, '{');
	jout_text(&w->j, "displayTimeUnit", "ms");
	about(w);
	jout_begin(&w->j, "traceEvents", '[');
	name_tracks(w);
	for (int32_t m = 0; m < timeline_replicas(w->t); m++)
		steps(w, m);
	load(w);
	for (int64_t i = 0; i < w->t->n; i++)
		request(w, &w->t->requests[i]);
	jout_end(&w->j, ']');
	jout_end(&w->j, '}');
	int rc = jout_close(&w->j, &unused, e);
	fputc('\n', f); /* save_file sees what cannot be written */
	return rc;
}

int timeline_write_trace(const struct timeline *t, const char *path, int64_t *bytes, struct err *e)
{
	struct writer w = {.t = t, .from_ns = t->o.from_ns};
	w.to_ns = t->o.to_ns < t->last_ns ? t->o.to_ns : t->last_ns;
	if (w.to_ns < w.from_ns)
		w.to_ns = w.from_ns;
	return save_file(path, write_trace, &w, bytes, e);
}
