/* cost_roofline.c: each operator takes the longer of its compute time and its memory time (Williams, Waterman, Patterson,
 * 2009), at the device's peaks times what good kernels reach of them, plus what each kernel and step cost besides.
 *
 * Almost every question is about a batch of decodes, so all that depends on the number of tokens (or of sampled rows)
 * alone is kept in two tables that fill on first use; what is left is two affine functions of the summed context. */
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "models/shard.h"
#include "sim/cost_models.h"
#include "sim/cost_ops.h"
#include "sim/network.h"

enum {
	TOKENS_KEPT = 1 << 15, /* beyond it, worked out each time: such steps take seconds of device time anyway */
	ROWS_KEPT = 1 << 12,
};

/* One layer's decode attention, in nanoseconds: max(ctx * compute, ctx * read + rows * fixed). */
struct decode_rate {
	double compute, read, fixed;
};

/* All of a step of nothing but so many decodes that does not depend on their context. */
struct decode_row {
	double base; /* 0 = not yet */
	double fixed; /* rows * decode_rate.fixed */
};

struct roofline {
	struct cost base;
	struct model model; /* one device's part, without its layers: op_shapes has counted them */
	struct op_shapes shapes;
	double vector, attention,
		linear[3]; /* FLOP/ns: element-wise; attention; products with attention, mlp, expert weights */
	double rest; /* products with the rest: router, LM head */
	double bandwidth, kv_bandwidth; /* bytes/ns: weights and activations; attention over the cache */
	double mixed; /* decode attention in a step with prompts takes so many times as long */
	double unhidden; /* of the shorter of compute and memory time, the share that the longer does not hide */
	struct network network;
	double reduced_bytes; /* of one token, in each all-reduce */
	double gathered_bytes; /* of one row of logits */
	int32_t reductions; /* all-reduces in a step; 0 = the device is alone */
	struct decode_rate decode;
	double n_full, n_window; /* layers by what their attention sees */
	double attention_kernels_ns; /* of all layers' decode attention */
	int32_t token_kernels, row_kernels, attention_kernels;
	double kernel_ns, launch_ns; /* launch_ns = 0: graphs */
	int64_t step_ns, request_ns, prompt_ns;
	double *tokens_ns; /* [TOKENS_KEPT] 0 = not yet */
	double *rows_ns; /* [ROWS_KEPT] */
	struct decode_row *decode_rows; /* [ROWS_KEPT] */
};

static double op_ns(const struct roofline *r, const struct op_work *w, double rate)
{
	double compute = w->flops / rate, memory = w->bytes / r->bandwidth;
	double longer = compute > memory ? compute : memory, shorter = compute > memory ? memory : compute;
	return longer + r->unhidden * shorter + w->kernels * r->kernel_ns;
}

static double attention_ns(const struct roofline *r, const struct op_work *w)
{
	double compute = w->flops / r->attention, memory = w->bytes / r->kv_bandwidth;
	return (compute > memory ? compute : memory) + w->kernels * r->kernel_ns;
}

static double token_op_rate(const struct roofline *r, enum token_op op)
{
	switch (op) {
	case OP_QKV:
	case OP_OUT:
		return r->linear[WEIGHTS_ATTENTION];
	case OP_MLP:
		return r->linear[WEIGHTS_MLP];
	case OP_EXPERTS:
		return r->linear[WEIGHTS_EXPERTS];
	case OP_ROUTER:
		return r->rest;
	default:
		return r->vector;
	}
}

/* Hidden states are summed over the devices after the embedding, each attention and each MLP. */
static double reduce_ns(const struct roofline *r, double tokens)
{
	return r->reductions * (r->network.all_reduce_ns + tokens * r->reduced_bytes * r->network.all_reduce_byte_ns);
}

/* Each device has its part of the vocabulary's logits. */
static double gather_ns(const struct roofline *r, double rows)
{
	if (rows == 0)
		return 0;
	return r->network.all_gather_ns + rows * r->gathered_bytes * r->network.all_gather_byte_ns;
}

static double count_tokens_ns(const struct roofline *r, int64_t tokens)
{
	double ns = reduce_ns(r, (double)tokens);
	for (int op = 0; op < TOKEN_OPS; op++) {
		struct op_work w;
		op_tokens(&r->shapes, (enum token_op)op, (double)tokens, &w);
		ns += op_ns(r, &w, token_op_rate(r, (enum token_op)op));
	}
	return ns;
}

static double count_rows_ns(const struct roofline *r, int64_t rows)
{
	struct op_work head, sample;
	op_lm_head(&r->shapes, (double)rows, &head);
	op_sample(&r->shapes, (double)rows, &sample);
	return op_ns(r, &head, r->rest) + gather_ns(r, (double)rows) + op_ns(r, &sample, r->vector);
}

static inline double tokens_ns(const struct roofline *r, int64_t tokens)
{
	if (tokens >= TOKENS_KEPT)
		return count_tokens_ns(r, tokens);
	double ns = r->tokens_ns[tokens];
	if (ns == 0 && tokens > 0)
		ns = r->tokens_ns[tokens] = count_tokens_ns(r, tokens);
	return ns;
}

static inline double rows_ns(const struct roofline *r, int64_t rows)
{
	if (rows >= ROWS_KEPT)
		return count_rows_ns(r, rows);
	double ns = r->rows_ns[rows];
	if (ns == 0 && rows > 0)
		ns = r->rows_ns[rows] = count_rows_ns(r, rows);
	return ns;
}

static inline double layer_ns(const struct decode_rate *rate, double fixed, int64_t ctx)
{
	double compute = (double)ctx * rate->compute, memory = (double)ctx * rate->read + fixed;
	return compute > memory ? compute : memory;
}

static double chunk_ns(const struct roofline *r, const struct chunk *c)
{
	struct op_work full, window;
	double start = c->start, n = (double)c->len + c->pad, ns = 0;
	op_prefill_attention(&r->shapes, start, n, 0, &full);
	if (r->shapes.n_full)
		ns += r->shapes.n_full * attention_ns(r, &full);
	if (r->shapes.n_window) {
		op_prefill_attention(&r->shapes, start, n, r->model.window, &window);
		ns += r->shapes.n_window * attention_ns(r, &window);
	}
	return ns;
}

/* To the nearest nanosecond. Beyond 146 years the clock could overflow: such a time is cut. */
static inline int64_t to_ns(double ns)
{
	return ns < 4.6e18 ? (int64_t)(ns + 0.5) : INT64_C(4600000000000000000);
}

/* Without graphs the host launches every kernel; where that takes longer than the device, the rest is host time. */
static int64_t launch_excess(const struct roofline *r, const struct batch *b, int64_t device_ns)
{
	int64_t kernels = r->token_kernels + (b->sampled > 0 ? r->row_kernels : 0);
	kernels += (int64_t)r->attention_kernels * (b->n_chunks + (b->decodes > 0));
	int64_t launch = to_ns((double)kernels * r->launch_ns);
	return launch > device_ns ? launch - device_ns : 0;
}

/* Any batch. Kept out of line, so that the common one below stays small. */
__attribute__((noinline)) static void step_mixed(const struct roofline *r, const struct batch *b, struct cost_time *out)
{
	double ns = tokens_ns(r, b->decodes + b->prefill_tokens) + rows_ns(r, b->sampled);
	if (b->decodes > 0) {
		double fixed = b->decodes * r->decode.fixed, attention;
		ns += r->attention_kernels_ns;
		attention = r->n_full * layer_ns(&r->decode, fixed, b->decode_ctx);
		if (r->n_window > 0)
			attention += r->n_window * layer_ns(&r->decode, fixed, b->decode_ctx_window);
		ns += b->n_chunks > 0 ? attention * r->mixed : attention;
	}
	for (int32_t i = 0; i < b->n_chunks; i++)
		ns += chunk_ns(r, &b->chunks[i]);
	out->host_ns = r->step_ns + r->request_ns * ((int64_t)b->decodes + b->n_chunks);
	if (b->n_chunks > 0)
		ns += (double)r->prompt_ns;
	out->device_ns = to_ns(ns);
	if (r->launch_ns > 0)
		out->host_ns += launch_excess(r, b, out->device_ns);
	out->outside = 0;
}

static void fill_decode_row(const struct roofline *r, int32_t rows, struct decode_row *d)
{
	d->base = tokens_ns(r, rows) + rows_ns(r, rows) + r->attention_kernels_ns;
	d->fixed = rows * r->decode.fixed;
}

/* Decodes only, a token sampled from each: nearly every step of a run. */
static void roofline_step(const struct cost *c, const struct batch *b, struct cost_time *out)
{
	const struct roofline *r = (const struct roofline *)c;
	int32_t rows = b->decodes;
	if (b->n_chunks > 0 || rows != b->sampled || (uint32_t)rows - 1 >= ROWS_KEPT - 1 || r->launch_ns > 0) {
		step_mixed(r, b, out);
		return;
	}
	struct decode_row *d = &r->decode_rows[rows];
	if (d->base == 0)
		fill_decode_row(r, rows, d);
	double ns = d->base + r->n_full * layer_ns(&r->decode, d->fixed, b->decode_ctx);
	if (r->n_window > 0)
		ns += r->n_window * layer_ns(&r->decode, d->fixed, b->decode_ctx_window);
	out->device_ns = to_ns(ns);
	out->host_ns = r->step_ns + r->request_ns * rows;
	out->outside = 0;
}

static void roofline_destroy(struct cost *c)
{
	struct roofline *r = (struct roofline *)c;
	mem_free(r->tokens_ns);
	mem_free(r->rows_ns);
	mem_free(r->decode_rows);
	mem_free(r);
}

/* What does not change from one of these steps to the next is added up once, in the order in which a single step adds
 * it: the sums must be the same to the bit. */
static int64_t roofline_run(const struct cost *c, const struct batch *b, int64_t start_ns, int64_t *end_ns,
			    int64_t most, struct cost_time *all)
{
	const struct roofline *r = (const struct roofline *)c;
	const struct decode_rate rate = r->decode;
	double base = tokens_ns(r, b->decodes) + rows_ns(r, b->sampled) + r->attention_kernels_ns;
	double fixed = b->decodes * r->decode.fixed, n_full = r->n_full, n_window = r->n_window;
	int64_t n = 0, t = start_ns, host_ns = r->step_ns + r->request_ns * (int64_t)b->decodes, device_ns;
	int64_t ctx = b->decode_ctx, window = b->decode_ctx_window, until_ns = b->until_ns;
	do {
		double ns = base + n_full * layer_ns(&rate, fixed, ctx);
		if (n_window > 0)
			ns += n_window * layer_ns(&rate, fixed, window);
		device_ns = to_ns(ns);
		t += host_ns + device_ns;
		end_ns[n++] = t;
		ctx += b->decodes;
		window += b->window_growing;
	} while (n < most && t < until_ns);
	*all = (struct cost_time){device_ns, host_ns, 0};
	return n;
}

/* step_part_names' order. */
enum { PART_MATMUL, PART_ATTENTION, PART_HEAD, PART_OTHER };

static void roofline_parts(const struct cost *c, const struct batch *b, double part_ns[STEP_PARTS])
{
	const struct roofline *r = (const struct roofline *)c;
	double tokens = (double)(b->decodes + b->prefill_tokens);
	for (int i = 0; i < STEP_PARTS; i++)
		part_ns[i] = 0;
	for (int op = 0; tokens > 0 && op < TOKEN_OPS; op++) {
		struct op_work w;
		bool product = op != OP_EMBED && op != OP_NORM && op != OP_ROPE;
		op_tokens(&r->shapes, (enum token_op)op, tokens, &w);
		part_ns[product ? PART_MATMUL : PART_OTHER] += op_ns(r, &w, token_op_rate(r, (enum token_op)op));
	}
	if (tokens > 0)
		part_ns[PART_OTHER] += reduce_ns(r, tokens);
	part_ns[PART_HEAD] = rows_ns(r, b->sampled);
	if (b->decodes > 0) {
		double fixed = b->decodes * r->decode.fixed;
		part_ns[PART_ATTENTION] = r->attention_kernels_ns +
					  r->n_full * layer_ns(&r->decode, fixed, b->decode_ctx) +
					  r->n_window * layer_ns(&r->decode, fixed, b->decode_ctx_window);
	}
	for (int32_t i = 0; i < b->n_chunks; i++)
		part_ns[PART_ATTENTION] += chunk_ns(r, &b->chunks[i]);
}

static const struct cost_ops roofline_ops = {"roofline", roofline_step, roofline_destroy, roofline_run, roofline_parts};
/* Launching each kernel may take the host longer than the device, by a part that changes from step to step. */
static const struct cost_ops eager_ops = {"roofline", roofline_step, roofline_destroy, NULL, roofline_parts};

/* The rate of products with weights held in t: FLOP/ns. */
static double product_rate(const struct device *d, const struct weight_format *f, enum weight_group g)
{
	bool whole = f->scope == SCOPE_ALL;
	bool quantised = whole || g == WEIGHTS_EXPERTS || (f->scope == SCOPE_LINEAR && g != WEIGHTS_REST);
	return device_peak(d, quantised ? f->dtype : DTYPE_BF16) * d->gemm_efficiency / 1e9;
}

static void set_rates(struct roofline *r, const struct device *d, const struct weight_format *f, bool eager)
{
	double vector = d->peak[DTYPE_FP32] > 0 ? d->peak[DTYPE_FP32] : device_peak(d, DTYPE_BF16);
	enum dtype scores = f->scope == SCOPE_ALL && f->dtype == DTYPE_FP32 ? DTYPE_FP32 : DTYPE_BF16;
	r->vector = vector * d->gemm_efficiency / 1e9;
	r->attention = device_peak(d, scores) * d->attention_efficiency / 1e9;
	for (int g = 0; g < 3; g++)
		r->linear[g] = product_rate(d, f, (enum weight_group)g);
	r->rest = product_rate(d, f, WEIGHTS_REST);
	r->bandwidth = d->bandwidth * d->memory_efficiency / 1e9;
	r->kv_bandwidth = d->bandwidth * (d->kv_efficiency > 0 ? d->kv_efficiency : d->memory_efficiency) / 1e9;
	r->unhidden = d->unhidden;
	r->mixed = d->mixed_efficiency > 0 ? 1 / d->mixed_efficiency : 1;
	r->kernel_ns = d->kernel_ns;
	r->launch_ns = eager ? d->launch_ns : 0;
	r->step_ns = to_ns(d->step_ns);
	r->request_ns = to_ns(d->request_ns);
	r->prompt_ns = to_ns(d->prompt_ns);
}

static void set_network(struct roofline *r, const struct cost_setup *s)
{
	network_init(&r->network, s->device, s->tensor_parallel);
	r->reductions = s->tensor_parallel > 1 ? 2 * s->model->n_layers + 1 : 0;
	r->reduced_bytes = s->model->hidden * r->shapes.act;
	r->gathered_bytes = s->model->vocab * r->shapes.act;
	r->shapes.sampled_vocab = s->model->vocab;
}

static void set_constants(struct roofline *r)
{
	struct op_work per_ctx, per_row, w;
	op_decode_attention(&r->shapes, 0, 1, &per_ctx);
	op_decode_attention(&r->shapes, 1, 0, &per_row);
	r->decode = (struct decode_rate){per_ctx.flops / r->attention, per_ctx.bytes / r->kv_bandwidth,
					 per_row.bytes / r->kv_bandwidth};
	r->n_full = r->shapes.n_full;
	r->n_window = r->shapes.n_window;
	r->attention_kernels = per_ctx.kernels * r->model.n_layers;
	r->attention_kernels_ns = r->attention_kernels * r->kernel_ns;
	for (int op = 0; op < TOKEN_OPS; op++) {
		op_tokens(&r->shapes, (enum token_op)op, 1, &w);
		r->token_kernels += w.kernels;
	}
	op_lm_head(&r->shapes, 1, &w);
	r->row_kernels = w.kernels;
	op_sample(&r->shapes, 1, &w);
	r->row_kernels += w.kernels + (r->reductions > 0);
	r->token_kernels += r->reductions;
}

void cost_setup_default(struct cost_setup *s, const struct model *m, const struct device *d)
{
	*s = (struct cost_setup){
		.model = m,
		.device = d,
		.weights = {.automatic = true},
		.kv = KV_AUTO,
		.attention = ATTENTION_FLASH,
		.tensor_parallel = 1,
	};
}

int cost_roofline_create(struct cost **out, const struct cost_setup *s, struct err *e)
{
	struct weight_format f;
	*out = NULL;
	struct model part;
	int rc = model_weight_format(s->model, &s->weights, &f, e);
	if (rc == ERR_NONE)
		rc = model_shard(&part, s->model, s->tensor_parallel, e);
	if (rc)
		return rc;
	if (f.dtype == DTYPE_FP32 && s->device->peak[DTYPE_FP32] <= 0)
		return err_set(e, ERR_INPUT, "%s has no fp32 figure in peak_tflops, and the weights are fp32",
			       s->device->name);
	const struct device *d = s->device;
	if (!(d->step_ns <= 1e12 && d->request_ns <= 1e9 && d->kernel_ns <= 1e9 &&
	      d->launch_ns <= 1e9)) /* sums fit 64 bits */
		return err_set(e, ERR_INPUT,
			       "roofline: an overhead above 1,000 s a step or 1 s a request or kernel is no overhead");
	struct roofline *r = mem_zalloc(1, sizeof *r);
	if (!r)
		return err_no_memory(e, "the roofline model");
	r->base.ops = s->eager ? &eager_ops : &roofline_ops;
	r->tokens_ns = mem_zalloc(TOKENS_KEPT, sizeof *r->tokens_ns);
	r->rows_ns = mem_zalloc(ROWS_KEPT, sizeof *r->rows_ns);
	r->decode_rows = mem_zalloc(ROWS_KEPT, sizeof *r->decode_rows);
	if (!r->tokens_ns || !r->rows_ns || !r->decode_rows) {
		roofline_destroy(&r->base);
		return err_no_memory(e, "the roofline model's tables");
	}
	r->model = part;
	op_shapes_init(&r->shapes, &r->model, &f, s->kv, s->attention);
	r->model.layers = NULL;
	set_rates(r, s->device, &f, s->eager);
	set_network(r, s);
	set_constants(r);
	*out = &r->base;
	return ERR_NONE;
}

/* rate = 0: attention. */
static void table_row(const struct roofline *r, const char *name, struct op_work w, double rate, struct cost_op *out)
{
	bool attention = rate == 0;
	double ns = attention ? attention_ns(r, &w) : op_ns(r, &w, rate);
	bool bound = attention ? w.flops / r->attention > w.bytes / r->kv_bandwidth
			       : w.flops / rate > w.bytes / r->bandwidth;
	*out = (struct cost_op){name, w.flops, w.bytes, ns, bound, w.kernels};
}

/* One attention row of the table: `layers` times one layer's work. */
static void attention_row(const struct roofline *r, struct op_work one, int32_t layers, struct cost_op *sum)
{
	struct cost_op row;
	if (layers == 0)
		return;
	table_row(r, "", one, 0, &row);
	sum->flops += layers * row.flops;
	sum->bytes += layers * row.bytes;
	sum->ns += layers * row.ns;
	sum->kernels += layers * row.kernels;
	sum->compute_bound |= row.compute_bound;
}

static struct cost_op decode_attention_row(const struct roofline *r, const struct batch *b)
{
	struct cost_op sum = {.name = "attention (decode)"};
	struct op_work w;
	op_decode_attention(&r->shapes, b->decodes, (double)b->decode_ctx, &w);
	attention_row(r, w, r->shapes.n_full, &sum);
	op_decode_attention(&r->shapes, b->decodes, (double)b->decode_ctx_window, &w);
	attention_row(r, w, r->shapes.n_window, &sum);
	double kernels_ns = r->attention_kernels_ns;
	if (b->n_chunks > 0)
		sum.ns = (sum.ns - kernels_ns) * r->mixed + kernels_ns;
	return sum;
}

static struct cost_op prefill_attention_row(const struct roofline *r, const struct batch *b)
{
	struct cost_op sum = {.name = "attention (prefill)"};
	struct op_work w;
	for (int32_t i = 0; i < b->n_chunks; i++) {
		double n = (double)b->chunks[i].len + b->chunks[i].pad;
		op_prefill_attention(&r->shapes, b->chunks[i].start, n, 0, &w);
		attention_row(r, w, r->shapes.n_full, &sum);
		op_prefill_attention(&r->shapes, b->chunks[i].start, n, r->model.window, &w);
		attention_row(r, w, r->shapes.n_window, &sum);
	}
	return sum;
}

int32_t cost_roofline_ops(const struct cost *c, const struct batch *b, struct cost_op out[COST_OPS_MAX])
{
	const struct roofline *r = (const struct roofline *)c;
	int64_t tokens = b->decodes + b->prefill_tokens;
	int32_t n = 0;
	struct op_work w;
	if (c->ops->step != roofline_step || tokens <= 0)
		return 0;
	for (int op = 0; op < TOKEN_OPS; op++) {
		op_tokens(&r->shapes, (enum token_op)op, (double)tokens, &w);
		if (w.kernels)
			table_row(r, token_op_name((enum token_op)op), w, token_op_rate(r, (enum token_op)op),
				  &out[n++]);
		if (op == OP_ROPE && b->n_chunks > 0)
			out[n++] = prefill_attention_row(r, b);
		if (op == OP_ROPE && b->decodes > 0)
			out[n++] = decode_attention_row(r, b);
	}
	if (b->sampled > 0) {
		op_lm_head(&r->shapes, b->sampled, &w);
		table_row(r, "lm_head", w, r->rest, &out[n++]);
		op_sample(&r->shapes, b->sampled, &w);
		table_row(r, "sampling", w, r->vector, &out[n++]);
	}
	if (r->reductions) {
		double rows = b->sampled, reduced = (double)tokens * r->reduced_bytes * r->reductions;
		out[n++] = (struct cost_op){.name = "all-reduce",
					    .bytes = reduced,
					    .ns = reduce_ns(r, (double)tokens),
					    .kernels = r->reductions};
		if (rows > 0)
			out[n++] = (struct cost_op){.name = "all-gather (logits)",
						    .bytes = rows * r->gathered_bytes,
						    .ns = gather_ns(r, rows),
						    .kernels = 1};
	}
	if (b->n_chunks > 0 && r->prompt_ns > 0)
		out[n++] = (struct cost_op){.name = "idle (prompts)", .ns = (double)r->prompt_ns};
	return n;
}
