/* report_run.c: one run as text. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/compare.h"
#include "analysis/gaps.h"
#include "analysis/run.h"
#include "analysis/text.h"

static void count(FILE *f, int64_t v, const char *what)
{
	char buf[TEXT_NUMBER];
	fprintf(f, "%s %s", text_count(v, buf), what);
}

static void value(FILE *f, const char *before, double v, const char *unit, const char *after)
{
	char buf[TEXT_NUMBER];
	fprintf(f, "%s%s%s", before, text_value(v, unit, buf), after);
}

/* "a=1,b=2", on to another line after a comma where one would be too long. */
static void print_params(FILE *f, const char *text)
{
	int at = fprintf(f, "  parameters  ");
	while (*text) {
		int n = (int)strcspn(text, ",");
		n += text[n] == ',';
		if (at + n > 110)
			at = fprintf(f, "\n              ") - 1;
		at += fprintf(f, "%.*s", n, text);
		text += n;
	}
	fputc('\n', f);
}

static void print_title(FILE *f, const struct run_settings *s, const struct run_result *r)
{
	fprintf(f, "%s", s->label ? s->label : s->policy);
	if (s->model)
		fprintf(f, ", %s", s->model);
	if (s->device)
		fprintf(f, " on %s", s->device);
	if (r->run_id)
		fprintf(f, ", run %lld", (long long)r->run_id);
	if (r->status != RUN_COMPLETE)
		fprintf(f, ": %s (%s)", run_status_name(r->status), r->status_text);
	fputc('\n', f);
	if (r->policy_params && r->policy_params[0])
		print_params(f, r->policy_params);
	if (r->oracle)
		fputs("  oracle      policies are told the true output lengths\n", f);
	if (r->lengths_estimated)
		fputs("  lengths     estimated from text, not counted by a tokenizer\n", f);
}

static void print_requests(FILE *f, const struct metrics *m)
{
	fputs("  requests    ", f);
	count(f, m->completed, "completed");
	static const char *const names[] = {"rejected", "aborted", "unfinished", "without output"};
	const int64_t counts[] = {m->rejected, m->aborted, m->unfinished, m->zero_output};
	for (int i = 0; i < 4; i++) {
		if (!counts[i])
			continue;
		fputs(", ", f);
		count(f, counts[i], names[i]);
	}
	const char *open = " (";
	for (int w = 1; w < REQUEST_WHYS; w++) {
		if (!m->rejected_why[w])
			continue;
		fputs(open, f);
		count(f, m->rejected_why[w], request_why_name((enum request_why)w));
		open = ", ";
	}
	fputs(*open == ',' ? ")\n" : "\n", f);
}

static void print_rates(FILE *f, const struct run_settings *s, const struct metrics *m)
{
	value(f, "  rate        ", m->request_throughput, "req/s", " requests/s served");
	value(f, ", ", m->offered_rate, "req/s", " offered");
	if (s->request_rate > 0)
		value(f, ", ", s->request_rate, "req/s", " asked for");
	value(f, ", over ", m->completed ? (double)m->duration_ns / 1e9 : NAN, "s", " s\n");
	value(f, "  tokens      ", m->output_throughput, "tok/s", " output/s");
	value(f, ", ", m->total_token_throughput, "tok/s", " in all/s");
	value(f, ", at most ", m->max_output_tokens_per_s, "tok/s", " output in one second\n");
	if (m->good >= 0) {
		value(f, "  goodput     ", m->request_goodput, "req/s", " requests/s met every objective");
		value(f, ", ", m->completed ? (double)m->good / (double)m->completed : NAN, "share",
		      " % of those served\n");
	}
}

static void print_costs(FILE *f, const struct metrics *m)
{
	if (isnan(m->dollars) || !m->completed)
		return;
	value(f, "  cost        $", m->dollars, "$", " at ");
	value(f, "$", m->price_per_hour, "$", " an hour: ");
	value(f, "$", 1000 * m->dollars_per_request, "$", " per 1,000 requests");
	if (!isnan(m->dollars_per_good_request))
		value(f, " ($", 1000 * m->dollars_per_good_request, "$", " good ones)");
	value(f, ", $", m->dollars_per_million_output_tokens, "$", " per million output tokens");
	value(f, ", $", m->dollars_per_million_input_tokens, "$", " input\n");
	if (!isnan(m->energy_joules)) {
		value(f, "  energy      ", m->energy_joules / 3.6e6, "kWh", " kWh at rated power while steps run: ");
		value(f, "", m->energy_per_request_joules, "J", " J a request, ");
		value(f, "", m->energy_per_output_token_joules, "J", " J an output token\n");
	}
}

static void print_latency(FILE *f, const char *label, const struct dist *d, const struct percentiles *p)
{
	char buf[TEXT_NUMBER];
	fprintf(f, "  %-20s%11s", label, text_value(d->mean / 1e6, "ms", buf));
	fprintf(f, "%11s", text_value(d->median / 1e6, "ms", buf));
	for (int32_t i = 0; i < p->n; i++)
		fprintf(f, "%11s%c", text_value(d->p[i] / 1e6, "ms", buf),
			d->n > 0 && percentile_is_thin(p->p[i], d->n) ? '~' : ' ');
	fprintf(f, "%10s", text_value(d->std / 1e6, "ms", buf));
	fprintf(f, "%13s\n", text_value((double)d->n, "", buf));
}

static bool any_thin(const struct metrics *m)
{
	for (int l = 0; l < LATENCY_COUNT; l++)
		for (int32_t i = 0; i < m->percentiles.n; i++)
			if (m->latency[l].n > 0 && percentile_is_thin(m->percentiles.p[i], m->latency[l].n))
				return true;
	return false;
}

static void print_latencies(FILE *f, const struct metrics *m)
{
	char name[24];
	fprintf(f, "\n  %-20s%11s%11s", "milliseconds", "mean", "median");
	for (int32_t i = 0; i < m->percentiles.n; i++)
		fprintf(f, "%11s ", percentile_name(m->percentiles.p[i], name));
	fprintf(f, "%10s%13s\n", "std", "n");
	for (int l = 0; l < LATENCY_COUNT; l++)
		if (l != LATENCY_TRANSFER || m->latency[l].max > 0)
			print_latency(f, latency_label((enum latency)l), &m->latency[l], &m->percentiles);
	const struct steady *st = &m->steady;
	char count_text[TEXT_NUMBER];
	fprintf(f, "  without start-up and drain (%s requests", text_count(st->n, count_text));
	value(f, ", ", st->request_throughput, "req/s", " requests/s");
	value(f, ", ", st->output_throughput, "tok/s", " output tokens/s)\n");
	print_latency(f, "  TTFT", &st->ttft, &m->percentiles);
	print_latency(f, "  TPOT", &st->tpot, &m->percentiles);
	print_latency(f, "  E2E latency", &st->e2el, &m->percentiles);
	print_latency(f, "  queue time", &st->queue, &m->percentiles);
	if (any_thin(m))
		fputs("  ~ from too few samples to be relied on\n", f);
	if (!m->itl_exact)
		fprintf(f, "  ITL percentiles are within %.3f %%\n", 100 * GAPS_PRECISION);
}

/* "waiting     longest 12.3 s; of all of it 80 % for memory, 20 % at entry" */
static void print_waits(FILE *f, const struct metrics *m)
{
	static const char *const words[] = {"until looked at", "for memory",         "for a place",
					    "for budget",      "for a long prefill", "by the policy's choice"};
	if (isnan(m->longest_wait_ns) || m->longest_wait_ns <= 0)
		return;
	fprintf(f, "  waiting     longest %.4g s", m->longest_wait_ns / 1e9);
	const char *before = "; of all of it ";
	int told = 0;
	for (int c = 0; c < WAIT_CAUSES; c++)
		if (m->waited_share[c] >= 0.0005) {
			fprintf(f, "%s%.1f %% %s", before, 100 * m->waited_share[c], words[c]);
			before = ++told == 3 ? ",\n              " : ", "; /* six of them are longer than a line */
		}
	fputc('\n', f);
}

static void print_work(FILE *f, const struct run_result *r)
{
	const struct metrics *m = &r->metrics;
	const struct engine_stats *st = &r->stats;
	char buf[TEXT_NUMBER];
	fprintf(f, "\n  steps       %s", text_count(st->steps, buf));
	value(f, ", mean ", m->mean_step_ns / 1e6, "ms", " ms");
	value(f, ", ", m->mean_tokens_per_step, "tok/step", " output tokens each");
	value(f, ", busy ", m->busy_share, "share", " %");
	value(f, ", host ", m->host_share, "share", " % of that\n");
	fprintf(f, "  running     at most %d, waiting at most ", st->max_running);
	fprintf(f, "%s\n", text_count(st->max_waiting, buf));
	print_waits(f, m);
	if (st->preemptions) {
		fprintf(f, "  preemptions %s", text_count(st->preemptions, buf));
		fprintf(f, " of %s requests", text_count(m->preempted_requests, buf));
		if (m->max_preemptions > 1)
			fprintf(f, " (one of them %lld times)", (long long)m->max_preemptions);
		fprintf(f, ", %s tokens computed again\n", text_count(st->recomputed_tokens, buf));
	}
	if (st->swaps || st->swap_refused) {
		fprintf(f, "  swapped     %s", text_count(st->swaps, buf));
		fprintf(f, " to host memory (%.3g GB out, ", (double)m->swap_out_bytes / 1e9);
		fprintf(f, "%.3g GB in)", (double)m->swap_in_bytes / 1e9);
		fprintf(f, ", %s more had no room there", text_count(st->swap_refused, buf));
		value(f, ", steps waited ", m->transfer_share, "share", " % of their time for copies\n");
	}
	if (st->pad_tokens)
		fprintf(f, "  padding     %s tokens computed for nothing\n", text_count(st->pad_tokens, buf));
	if (st->wasted_tokens)
		fprintf(f, "  past end    %s tokens computed after a request's last\n",
			text_count(st->wasted_tokens, buf));
	if (st->outside_steps)
		fprintf(f, "  outside     %s steps lay beyond what the cost model knows, by up to %.2f times\n",
			text_count(st->outside_steps, buf), st->outside_max);
}

/* What the prefix cache did, and what an endless one would have. */
static void print_prefixes(FILE *f, const struct run_result *r)
{
	const struct metrics *m = &r->metrics;
	const struct engine_stats *s = &r->stats;
	char buf[TEXT_NUMBER];
	bool cache = !isnan(m->prefix_hit_ratio), ideal = !isnan(m->prefix_ideal_block_hit_ratio);
	if (cache) {
		value(f, "  prefixes    ", m->prefix_hit_ratio, "share", " % of prompt tokens found in the cache");
		value(f, " (cold at the start), by ", m->prefix_request_hit_ratio, "share", " % of requests");
		value(f, "\n              ", m->prefix_block_hit_ratio, "share", " % of blocks");
	}
	if (ideal)
		value(f, cache ? "; " : "  prefixes    ", m->prefix_ideal_block_hit_ratio, "share",
		      " % of the trace's blocks would be found in an endless one");
	if (cache) {
		fprintf(f, "\n              %s blocks evicted (%s)", text_count(s->evicted_blocks, buf),
			prefix_eviction_names[r->engine.prefix_eviction]);
		fprintf(f, ", %s filled twice", text_count(s->duplicate_blocks, buf));
		if (r->kv_bytes_per_token)
			fprintf(f, ", %s bytes for nothing", text_count(run_prefix_wasted_bytes(r), buf));
	}
	if (cache || ideal)
		fputc('\n', f);
}

static void print_memory(FILE *f, const struct run_result *r)
{
	const struct metrics *m = &r->metrics;
	char buf[TEXT_NUMBER];
	if (r->engine.kv_off) {
		fputs("  KV memory   off: every step computes every token again\n", f);
		return;
	}
	fprintf(f, "  KV memory   %s blocks", text_count(r->engine.num_blocks, buf));
	fprintf(f, " of %d, at most ", r->engine.block_size);
	fprintf(f, "%s used", text_count(r->stats.max_blocks_used, buf));
	value(f, "\n              while busy: ", m->kv_used, "share", " % held tokens");
	value(f, ", ", m->kv_internal_waste, "share", " % internal waste");
	value(f, ", ", m->kv_reserved_waste, "share", " % reserved");
	if (m->kv_external_waste > 0)
		value(f, ", ", m->kv_external_waste, "share", " % external waste");
	if (m->kv_sharing_saved > 0)
		value(f, ", ", m->kv_sharing_saved, "share", " % of what would be held saved by sharing");
	if (r->stats.forks) {
		fprintf(f, "\n  forks       %s took over ", text_count(r->stats.forks, buf));
		fprintf(f, "%s tokens of their parents', ", text_count(r->stats.forked_tokens, buf));
		fprintf(f, "%s shared blocks copied", text_count(r->stats.copied_blocks, buf));
	}
	if (r->stats.dropped_blocks) {
		fprintf(f, "\n              %s blocks dropped", text_count(r->stats.dropped_blocks, buf));
		fprintf(f, " (%s tokens)", text_count(r->stats.dropped_tokens, buf));
	}
	fputc('\n', f);
	print_prefixes(f, r);
	if (isnan(m->cold_hit_ratio))
		return;
	value(f, "  offloaded   ", m->cold_hit_ratio, "share", " % of them behind the device");
	fprintf(f, ": %.3g GB to host memory and ", (double)m->saved_bytes / 1e9);
	fprintf(f, "%.3g GB back, ", (double)m->host_hit_bytes / 1e9);
	fprintf(f, "%.3g GB to disk and %.3g GB back; ", (double)m->disk_write_bytes / 1e9,
		(double)m->disk_read_bytes / 1e9);
	if (r->stats.prefetched_blocks)
		fprintf(f, "%s blocks read ahead, ", text_count(r->stats.prefetched_blocks, buf));
	fprintf(f, "%s blocks dropped", text_count(r->stats.cold_dropped_blocks + r->stats.unsaved_blocks, buf));
	value(f, "; steps waited ", m->transfer_share, "share", " % of their time for copies\n");
}

static void print_workflows(FILE *f, const struct metrics *m)
{
	const struct workflow_figures *x = &m->workflows;
	if (x->n) {
		fprintf(f, "  workflows   %lld of %lld completed", (long long)x->completed, (long long)x->n);
		if (x->completed)
			fprintf(f,
				"; makespan mean %.4g s, median %.4g s, longest %.4g s; critical path of %.3g requests",
				x->makespan.mean / 1e9, x->makespan.median / 1e9, x->makespan.max / 1e9,
				x->critical_requests);
		fputc('\n', f);
	}
	if (!isnan(m->tenant_fairness))
		fprintf(f, "  fairness    %.3f (Jain index of tenants' output speeds)\n", m->tenant_fairness);
}

int compare_print_run(FILE *f, const struct run_settings *s, const struct run_result *r, struct err *e)
{
	print_title(f, s, r);
	print_requests(f, &r->metrics);
	print_rates(f, s, &r->metrics);
	print_costs(f, &r->metrics);
	print_latencies(f, &r->metrics);
	print_work(f, r);
	print_memory(f, r);
	print_workflows(f, &r->metrics);
	return ferror(f) ? err_set(e, ERR_IO, "writing the figures: %s", strerror(errno)) : ERR_NONE;
}
