/* What was found, in words and tables of at most 100 columns. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "analysis/rerun.h"
#include "analysis/text.h"
#include "cli/explain_view.h"

struct line { /* a paragraph being filled */
	int column;
};

/* Words of the paragraph, broken at column 100. */
__attribute__((format(printf, 2, 3))) static void words(struct line *l, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	for (char *at = text; *at;) {
		size_t n = strcspn(at, " ");
		if (l->column && l->column + 1 + (int)n > 100) {
			putchar('\n');
			l->column = 0;
		} else if (l->column) {
			putchar(' ');
			l->column++;
		}
		printf("%.*s", (int)n, at);
		l->column += (int)n;
		at += n;
		while (*at == ' ')
			at++;
	}
}

static void paragraph_end(struct line *l)
{
	puts("");
	l->column = 0;
}

static const char *name_of(const struct explain_view *v, int32_t req, char buf[TEXT_CLEAN])
{
	char id[24];
	return text_clean(workload_name(&v->run.loaded.workload, req, id), buf, 48);
}

static const char *ms(double ns, char buf[TEXT_NUMBER])
{
	return text_value(ns / 1e6, "ms", buf);
}

/* 12.5 s, 3.142 ms: as fits. */
static const char *duration(double ns, char buf[TEXT_NUMBER + 4])
{
	char number[TEXT_NUMBER];
	bool seconds = ns >= 1e9;
	snprintf(buf, TEXT_NUMBER + 4, "%s %s", text_value(seconds ? ns / 1e9 : ns / 1e6, "ms", number),
		 seconds ? "s" : "ms");
	return buf;
}

static double share(double part, double all)
{
	return all > 0 ? 100 * part / all : 0;
}

static void head(const struct explain_view *v, const char *what)
{
	const struct store_recipe *r = &v->run.recipe;
	char label[TEXT_CLEAN], trace[TEXT_CLEAN];
	printf("%s%srun %" PRId64 " (%s", what, *what ? " of " : "", r->run_id,
	       text_clean(r->label ? r->label : r->policy, label, sizeof label));
	if (r->trace)
		printf(", %s", text_clean(r->trace, trace, 80));
	puts(")");
	if (v->executed)
		printf("executed on real kernels; its steps are divided by what its own steps say (a linear fit, off "
		       "by %.1f %%)\n",
		       100 * v->fit.error);
}

/* --- one request -------------------------------------------------------------------------------------------------- */

static void cause_table(const struct explain_view *v, const struct request *r)
{
	const struct explained *k = &v->x.each[v->x.focus.req];
	int64_t first = explained_sum(k->first), after = explained_sum(k->after);
	bool token = r->first_token_ns >= 0;
	char a[TEXT_NUMBER], b[TEXT_NUMBER];
	printf("\n  %-38s %18s", "milliseconds", token ? "to its first token" : "until its end");
	if (token)
		printf(" %24s", "from there to its last");
	putchar('\n');
	for (int c = 0; c < CAUSES; c++) {
		if (!k->first[c] && !k->after[c])
			continue;
		printf("  %-38s", cause_words[c]);
		if (k->first[c])
			printf(" %10s %5.1f %%", ms((double)k->first[c], a), share((double)k->first[c], (double)first));
		else
			printf(" %18s", "");
		if (k->after[c])
			printf(" %16s %5.1f %%", ms((double)k->after[c], b), share((double)k->after[c], (double)after));
		putchar('\n');
	}
	printf("  %-38s %10s", "in all", ms((double)first, a));
	if (token)
		printf(" %7s %16s", "", ms((double)after, b));
	putchar('\n');
}

/* "17 (60 %, 1.2 ms), 18 (30 %, 0.6 ms) and 3 more": ends with `end`. */
static void name_list(struct line *l, const struct explain_view *v, const struct explain_list *list, bool with_ms,
		      const char *end)
{
	char name[TEXT_CLEAN], d[TEXT_NUMBER + 4], many[24];
	snprintf(many, sizeof many, "%d more", list->others);
	for (int32_t i = 0; i < list->n; i++) {
		bool last = i + 1 == list->n && !list->others;
		words(l, "%s%s", i && last ? "and " : "", name_of(v, list->at[i].req, name));
		words(l, "(%.0f %%%s%s)%s", share(list->at[i].amount, list->total), with_ms ? ", " : "",
		      with_ms ? duration(list->at[i].amount, d) : "",
		      last                                   ? end
		      : i + 2 < list->n + (list->others > 0) ? ","
							     : "");
	}
	if (list->others)
		words(l, "and %s%s", many, end);
}

static void story_of_waiting(struct line *l, const struct explain_view *v, const struct request *r)
{
	const struct explain_focus *f = &v->x.focus;
	const int64_t *k = v->x.each[f->req].first;
	char d[TEXT_NUMBER + 4], name[TEXT_CLEAN];
	int most = CAUSE_CLIENT;
	int64_t queue = r->first_sched_ns >= 0 ? request_queue_ns(r) : 0;
	words(l, "As it came, %d waited before it and %d held memory.", f->ahead, f->running);
	for (int c = CAUSE_CLIENT; c <= CAUSE_ORDER; c++)
		most = k[c] > k[most] ? c : most;
	if (r->first_sched_ns < 0)
		words(l, "It was never let in.");
	else if (queue == 0)
		words(l, "It was let in at once.");
	else
		words(l, "It was queued for %s, %.0f %% of that: %s.", duration((double)queue, d),
		      share((double)k[most], (double)queue), cause_words[most]);
	if (f->overtakers) {
		words(l, "%d that came later %s let in before it, the first of them %s.", f->overtakers,
		      f->overtakers == 1 ? "was" : "were", name_of(v, f->first_overtaker, name));
	}
	if (f->holders.n) {
		words(l, "While it waited for memory or a place, the memory was held by");
		name_list(l, v, &f->holders, false, ".");
	}
	if (f->prefills.n) {
		words(l, "Prompts in its way, by the time it waited for them or its steps were slowed by them:");
		name_list(l, v, &f->prefills, true, ".");
	}
}

static void story_of_turns(struct line *l, const struct explain_view *v, const struct request *r)
{
	const struct explain_focus *f = &v->x.focus;
	const struct spec *s = &v->run.loaded.workload.specs[f->req];
	char a[TEXT_NUMBER], b[TEXT_NUMBER];
	if (r->cached_tokens)
		words(l, "%s of its %s prompt tokens were in the prefix cache.", text_count(r->cached_tokens, a),
		      text_count(s->prompt_tokens, b));
	if (f->turns[0])
		words(l, "Its prompt took %s step%s, with %.1f others beside it on average.",
		      text_count(f->turns[0], a), f->turns[0] == 1 ? "" : "s",
		      (double)f->rows[0] / (double)f->turns[0]);
	if (f->turns[2])
		words(l, "Computing again what was lost took %s more.", text_count(f->turns[2], a));
	if (f->turns[1])
		words(l, "Its tokens took %s steps, with %.1f others and %.1f prompt tokens beside them.",
		      text_count(f->turns[1], a), (double)f->rows[1] / (double)f->turns[1],
		      (double)f->tokens[1] / (double)f->turns[1]);
}

static void story_of_losses(struct line *l, const struct explain_view *v)
{
	const struct history_table *t = &v->x.focus.story;
	char d[TEXT_NUMBER + 4], n[TEXT_NUMBER], name[TEXT_CLEAN];
	int64_t told = 0, left = 0;
	for (int64_t i = 0; i < t->n; i++) {
		const struct phase *p = &t->phases[i];
		if (p->kind != PHASE_PREEMPTED && p->kind != PHASE_SWAPPED)
			continue;
		if (told++ >= 3) {
			left++;
			continue;
		}
		int64_t step = 0;
		for (int64_t k = 0; k < i; k++)
			step = t->phases[k].last_step > step ? t->phases[k].last_step : step;
		words(l, "After step %s it %s", text_count(step, n),
		      p->kind == PHASE_PREEMPTED ? "lost its memory" : "was swapped out");
		if (p->by >= 0)
			words(l, "%s %s,", p->kind == PHASE_PREEMPTED ? "to" : "for", name_of(v, p->by, name));
		else
			words(l, "(there was none for itself),");
		words(l, "and waited %s to come back.", duration((double)(p->end_ns - p->begin_ns), d));
	}
	if (left)
		words(l, "That happened %" PRId64 " more time%s.", left, left == 1 ? "" : "s");
}

static void phase_line(const struct explain_view *v, const struct phase *p)
{
	int64_t arrival_ns = v->result.requests[p->req].arrival_ns;
	char at[TEXT_NUMBER], took[TEXT_NUMBER], a[TEXT_NUMBER], b[TEXT_NUMBER], name[TEXT_CLEAN];
	printf("  %12s %12s  %s", ms((double)(p->begin_ns - arrival_ns), at),
	       ms((double)(p->end_ns - p->begin_ns), took), phase_names[p->kind]);
	if (p->first_step >= 0 || p->by >= 0 || p->open)
		printf("%*s", 10 - (int)strlen(phase_names[p->kind]), "");
	if (p->first_step >= 0 && p->first_step == p->last_step)
		printf(" step %s", text_count(p->first_step, a));
	else if (p->first_step >= 0)
		printf(" steps %s-%s", text_count(p->first_step, a), text_count(p->last_step, b));
	if (p->tokens)
		printf(", %s token%s", text_count(p->tokens, a), p->tokens == 1 ? "" : "s");
	if (p->again)
		printf(", %s of them again", text_count(p->again, a));
	if (p->by >= 0)
		printf(" for %s", name_of(v, p->by, name));
	if (p->open)
		printf(" (when the run ended)");
	putchar('\n');
}

/* The first and the last of many. */
static void phase_table(const struct explain_view *v)
{
	enum { MOST = 24 };
	const struct history_table *t = &v->x.focus.story;
	printf("\n  %12s %12s\n", "after, ms", "for, ms");
	for (int64_t i = 0; i < t->n; i++) {
		if (t->n > MOST && i == MOST / 2) {
			printf("  %12s %12s  (%" PRId64 " more: --json has all)\n", "...", "", t->n - MOST);
			i = t->n - MOST / 2;
		}
		phase_line(v, &t->phases[i]);
	}
}

void explain_print_request(const struct explain_view *v)
{
	const struct explain_focus *f = &v->x.focus;
	const struct request *r = &v->result.requests[f->req];
	const struct spec *s = &v->run.loaded.workload.specs[f->req];
	char name[TEXT_CLEAN], title[TEXT_CLEAN + 16], a[TEXT_NUMBER], b[TEXT_NUMBER], d[TEXT_NUMBER + 4],
		d2[TEXT_NUMBER + 4];
	struct line l = {0};
	snprintf(title, sizeof title, "request %s", name_of(v, f->req, name));
	head(v, title);
	words(&l, "%s prompt tokens, %s output tokens, arrived at %s.", text_count(s->prompt_tokens, a),
	      text_count(r->outputs, b), duration((double)r->arrival_ns, d));
	if (r->state == REQUEST_PENDING)
		words(&l, "The run ended before it came.");
	else if (r->first_token_ns >= 0)
		words(&l, "First token after %s, last one after %s.", duration((double)request_ttft_ns(r), d),
		      duration((double)request_e2e_ns(r), d2));
	if (r->state == REQUEST_REJECTED || r->state == REQUEST_ABORTED)
		words(&l, "It was %s (%s).", request_state_name((enum request_state)r->state),
		      request_why_name((enum request_why)r->why));
	paragraph_end(&l);
	if (r->state == REQUEST_PENDING)
		return;
	cause_table(v, r);
	putchar('\n');
	story_of_waiting(&l, v, r);
	story_of_turns(&l, v, r);
	story_of_losses(&l, v);
	paragraph_end(&l);
	phase_table(v);
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

static void percentile_of(const struct explain_view *v, char buf[24])
{
	percentile_name(v->percentile, buf);
}

static void rank_table(const struct explain_view *v, enum explain_metric m)
{
	const struct explain_rank *k = &v->rank[m];
	char p[24], a[TEXT_NUMBER], b[TEXT_NUMBER], c_[TEXT_NUMBER], n[TEXT_NUMBER], hint[WHATIF_TEXT],
		name[TEXT_CLEAN];
	percentile_of(v, p);
	if (!k->n) {
		printf("\n%s: no request has one\n", explain_metric_labels[m]);
		return;
	}
	printf("\n%s: %s %s ms. The %s slowest took %s ms%s on average, all %s ms\n", explain_metric_labels[m], p,
	       ms(v->own.p[m], a), text_count(k->slow, n), ms(k->slow_ns, b), m == EXPLAIN_TPOT ? " a token" : "",
	       ms(k->all_ns, c_));
	printf("  %-38s %10s %8s %12s   %s\n", "cause", "slowest", "", "all", "a setting against it");
	double rest = 0;
	for (int i = 0; i < CAUSES; i++) {
		enum cause c = (enum cause)k->order[i];
		if (!(k->slow_by[c] > 0))
			continue;
		if (k->slow_by[c] < 0.005 * k->slow_ns) {
			rest += k->slow_by[c];
			continue;
		}
		const char *h = whatif_hint(&v->run.settings, &v->run.loaded.workload, c, hint);
		printf("  %-38s %10s %6.1f %% %12s   %s\n", cause_words[c], ms(k->slow_by[c], a),
		       share(k->slow_by[c], k->slow_ns), ms(k->all_by[c], b), h ? h : "");
	}
	if (rest > 0)
		printf("  %-38s %10s %6.1f %%\n", "other causes", ms(rest, a), share(rest, k->slow_ns));
	printf("  the slowest: ");
	for (int32_t i = 0; i < k->n_slowest; i++)
		printf("%s%s", i ? ", " : "", name_of(v, k->slowest[i], name));
	printf("\n");
}

static const char *change_text(double change, char buf[16])
{
	if (isnan(change))
		return "-";
	snprintf(buf, 16, fabs(change) < 0.0995 || change < -0.985 ? "%+.1f %%" : "%+.0f %%", 100 * change);
	return buf;
}

static void whatif_row(const struct explain_view *v, int32_t i, const char *mark)
{
	const struct whatifs *w = &v->whatifs;
	const struct whatif *x = &w->at[i];
	char c[EXPLAIN_METRICS][16], t[TEXT_NUMBER];
	if (!x->ran)
		return;
	printf("%s %-46s", mark, x->change);
	for (int m = 0; m < EXPLAIN_METRICS; m++)
		printf(" %10s", change_text(whatif_change(w, i, (enum explain_metric)m), c[m]));
	printf(" %12s", text_value(x->figures.throughput, "requests/s", t));
	if (x->figures.completed < w->base.completed)
		printf("  (%s not served)", text_count(w->base.completed - x->figures.completed, t));
	putchar('\n');
}

/* By what they do to the metric, the best first; those without it last. */
static void sort_whatifs(const struct explain_view *v, int32_t order[WHATIF_MAX])
{
	const struct whatifs *w = &v->whatifs;
	for (int32_t i = 0; i < w->n; i++) {
		double mine = whatif_change(w, i, v->metric);
		int32_t at = i;
		for (; at > 0; at--) {
			double before = whatif_change(w, order[at - 1], v->metric);
			if (!(mine < before || isnan(before)))
				break;
			order[at] = order[at - 1];
		}
		order[at] = i;
	}
}

static void verdict(const struct explain_view *v)
{
	const struct whatifs *w = &v->whatifs;
	const char *label = explain_metric_labels[v->metric];
	int32_t best = whatif_best(w, v->metric, false), kind = whatif_best(w, v->metric, true),
		worst = whatif_worst(w, v->metric);
	char c[EXPLAIN_METRICS][16], p[24];
	struct line l = {0};
	percentile_of(v, p);
	if (best < 0) {
		words(&l, "None of them lowers %s of %s.", p, label);
	} else {
		for (int m = 0; m < EXPLAIN_METRICS; m++)
			change_text(whatif_change(w, best, (enum explain_metric)m), c[m]);
		words(&l, "Best: with %s %s %s %s, TPOT %s, E2E %s.", w->at[best].change, p,
		      v->metric == EXPLAIN_TTFT ? "TTFT" : explain_metric_labels[v->metric], c[v->metric],
		      c[EXPLAIN_TPOT], c[EXPLAIN_E2EL]);
		if (kind >= 0 && kind != best)
			words(&l, "Best that costs no other more than a tenth: %s, %s.", w->at[kind].change,
			      change_text(whatif_change(w, kind, v->metric), c[0]));
		else if (kind < 0)
			words(&l, "It costs another more than a tenth.");
	}
	for (int32_t i = 0; i < w->n; i++)
		if (w->at[i].ran && w->at[i].hardware)
			words(&l, "One more machine (%s): %s.", w->at[i].change,
			      change_text(whatif_change(w, i, v->metric), c[0]));
	if (worst >= 0)
		words(&l, "Worst: %s, %s.", w->at[worst].change, change_text(whatif_change(w, worst, v->metric), c[0]));
	paragraph_end(&l);
}

static void whatif_table(const struct explain_view *v)
{
	const struct whatifs *w = &v->whatifs;
	int32_t order[WHATIF_MAX] = {0}, refused = 0;
	char p[24], n[EXPLAIN_METRICS][TEXT_NUMBER], t[TEXT_NUMBER];
	percentile_of(v, p);
	if (*v->no_whatifs) {
		printf("\nNo what-ifs: %s\n", v->no_whatifs);
		return;
	}
	if (!w->n)
		return;
	printf("\nWhat if? The run simulated again with one setting changed, against the causes of %s\n",
	       explain_metric_labels[v->metric]);
	if (v->executed)
		printf("Step times are from %s.\n", v->whatif_model);
	printf("  %-46s %10s %10s %10s %12s\n", p, "TTFT", "TPOT", "E2E", "requests/s");
	printf("  %-46s %10s %10s %10s %12s\n", v->executed ? "as it was, simulated (ms)" : "as it was (ms)",
	       ms(w->base.p[0], n[0]), ms(w->base.p[1], n[1]), ms(w->base.p[2], n[2]),
	       text_value(w->base.throughput, "requests/s", t));
	sort_whatifs(v, order);
	int32_t best = whatif_best(w, v->metric, false);
	for (int32_t i = 0; i < w->n; i++) {
		whatif_row(v, order[i], order[i] == best ? "*" : " ");
		refused += !w->at[order[i]].ran;
	}
	for (int32_t i = 0; i < w->n; i++)
		if (!w->at[i].ran)
			printf("  %s cannot be: %s\n", w->at[i].change, w->at[i].why_not);
	verdict(v);
	if (v->whatifs.n == refused)
		puts("None of them could be run.");
}

void explain_print_run(const struct explain_view *v)
{
	head(v, "");
	for (int m = 0; m < EXPLAIN_METRICS; m++)
		rank_table(v, (enum explain_metric)m);
	whatif_table(v);
}
