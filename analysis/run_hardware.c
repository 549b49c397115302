/* run_hardware.c: what serves a run: model, device, cost model, and how much memory there is in each tier. */
#include "analysis/run_parts.h"

#include "exec/weights.h"
#include "models/shard.h"
#include "sim/capacity.h"
#include "sim/cost_models.h"

/* Weights that say themselves what model they are of. */
static int model_of_weights(struct run_parts *p, struct err *e)
{
	if (!p->settings->weights)
		return err_set(e, ERR_INPUT, "what is to be run? Give --model, or --weights that say what they are of");
	return weights_model(p->settings->weights, &p->model, e);
}

int run_parts_hardware(struct run_parts *p, struct err *e)
{
	const struct run_settings *s = p->settings;
	/* Before anything is read from a file. */
	int rc = model_formats(NULL, s->weight_dtype, s->kv_dtype, &p->weights, &p->kv, e);
	/* A replay needs what the model says of lengths. */
	if (rc == ERR_NONE && (s->model || p->kernels || (s->backend == BACKEND_REPLAY && s->weights))) {
		rc = s->model ? model_load(&p->model, s->model, e) : model_of_weights(p, e);
		p->has_model = rc == ERR_NONE;
	}
	if (rc == ERR_NONE && s->device) {
		rc = device_load(&p->device, s->device, e);
		p->has_device = rc == ERR_NONE;
	}
	if (rc || !p->has_model)
		return rc;
	struct model part;
	rc = model_formats(&p->model, s->weight_dtype, s->kv_dtype, &p->weights, &p->kv, e);
	if (rc == ERR_NONE)
		rc = model_shard(&part, &p->model, s->tensor_parallel, e);
	if (rc == ERR_NONE) {
		p->result->weight_bytes = model_weight_bytes(&part, &p->weights);
		p->result->kv_bytes_per_token = model_kv_bytes_per_token(&part, p->kv, &p->weights);
	}
	return rc;
}

int run_parts_cost(struct run_parts *p, struct err *e)
{
	struct cost_setup setup;
	const struct run_settings *s = p->settings;
	if (s->backend != BACKEND_SIM)
		return ERR_NONE;
	cost_setup_default(&setup, p->has_model ? &p->model : NULL, p->has_device ? &p->device : NULL);
	setup.weights = p->weights;
	setup.kv = p->kv;
	setup.tensor_parallel = s->tensor_parallel;
	setup.profile = s->profile;
	setup.threads = s->threads;
	setup.block_size = s->engine.block_size;
	return cost_open(&p->cost, s->cost ? s->cost : "roofline", &setup, e);
}

/* How many KV blocks there are: as told, or what fits. */
static int count_blocks(struct run_parts *p, struct err *e)
{
	const struct run_settings *s = p->settings;
	struct engine_config *c = &p->config;
	if (s->num_gpu_blocks_override > 0) {
		c->num_blocks = s->num_gpu_blocks_override;
		return ERR_NONE;
	}
	if (p->kernels)
		return c->kv_off ? ERR_NONE : run_exec_count(&p->exec, s, &p->model, &p->weights, p->kv, p->io, c, e);
	if (!p->has_model || !p->has_device) {
		if (c->kv_off)
			return ERR_NONE;
		return err_set(
			e, ERR_INPUT,
			"how much KV memory is there? Give --num-gpu-blocks-override N, or --model and --device");
	}
	struct capacity_options o;
	capacity_options_default(&o);
	o.utilization = s->gpu_memory_utilization;
	o.block_size = c->block_size;
	o.max_num_seqs = c->max_num_seqs;
	o.max_num_batched_tokens = c->max_num_batched_tokens;
	o.max_model_len = c->max_model_len;
	o.weights = p->weights;
	o.kv = p->kv;
	o.tensor_parallel = s->tensor_parallel;
	return capacity_blocks(&p->model, &p->device, &o, &c->num_blocks, e);
}

/* --kv-window left out: what the model itself looks back. */
static int find_kv_window(const struct run_parts *p, struct engine_config *c, struct err *e)
{
	if (c->kv_retention == RETAIN_FULL || c->kv_window)
		return ERR_NONE;
	if (p->has_model)
		c->kv_window = model_common_window(&p->model);
	if (c->kv_window)
		return ERR_NONE;
	return err_set(e, ERR_INPUT, "--kv-retention %s: %s, so tell with --kv-window how many tokens to keep",
		       kv_retention_names[c->kv_retention],
		       !p->has_model     ? "no model was named"
		       : p->model.window ? "some layers of the model see the whole context"
					 : "the model has no sliding window");
}

int64_t run_parts_page_bytes(const struct run_parts *p)
{
	return p->result->kv_bytes_per_token * p->config.block_size;
}

/* KV blocks that go into so many GiB, which --`flag` gives. */
static int blocks_in(const struct run_parts *p, const char *flag, double gib, int32_t *blocks, struct err *e)
{
	*blocks = 0;
	if (gib <= 0)
		return ERR_NONE;
	if (!run_parts_page_bytes(p))
		return err_set(e, ERR_INPUT, "--%s needs to know how large a KV block is: give --model", flag);
	double n = gib * 1024 * 1024 * 1024 / (double)run_parts_page_bytes(p);
	if (n < 1)
		return err_set(e, ERR_INPUT, "--%s %g GiB is less than one KV block of %lld bytes", flag, gib,
			       (long long)run_parts_page_bytes(p));
	*blocks = n < INT32_MAX / 4 ? (int32_t)n : INT32_MAX / 4;
	return ERR_NONE;
}

/* Memory behind the device's. */
static int count_tier_blocks(struct run_parts *p, struct err *e)
{
	const struct run_settings *s = p->settings;
	struct engine_config *c = &p->config;
	int rc = blocks_in(p, "swap-space", s->swap_space, &c->swap_blocks, e);
	if (rc == ERR_NONE)
		rc = blocks_in(p, "kv-offload-host", s->kv_offload_host, &c->offload_host_blocks, e);
	return rc ? rc : blocks_in(p, "kv-offload-disk", s->kv_offload_disk, &c->offload_disk_blocks, e);
}

/* How fast the simulator copies between tiers. */
int run_parts_links(struct run_parts *p, struct err *e)
{
	enum { DISK_BYTES_PER_S = 5000000 }; /* x 1000: a PCIe 4 NVMe drive reads 5 to 7 GB/s */
	const struct run_settings *s = p->settings;
	if (!p->config.swap_blocks && !p->config.offload_host_blocks)
		return ERR_NONE;
	double host = s->kv_host_bandwidth > 0 ? s->kv_host_bandwidth * 1e9
		      : p->has_device          ? p->device.host_bandwidth
					       : 0;
	double disk = s->kv_disk_bandwidth > 0 ? s->kv_disk_bandwidth * 1e9 : DISK_BYTES_PER_S * 1e3;
	if (host <= 0)
		return err_set(
			e, ERR_INPUT,
			"how fast is the link to host memory? Give --kv-host-bandwidth GB/s, or a --device whose "
			"specification says (host_gb_s)");
	const struct link_speed to_host = {(int64_t)host, (int64_t)(s->kv_host_latency * 1e3)};
	const struct link_speed to_disk = {(int64_t)disk, (int64_t)(s->kv_disk_latency * 1e3)};
	struct link_speeds *speeds = &p->links;
	*speeds = (struct link_speeds){.page_bytes = run_parts_page_bytes(p)};
	speeds->of[LINK_DEVICE_HOST] = speeds->of[LINK_HOST_DEVICE] = to_host;
	speeds->of[LINK_HOST_DISK] = speeds->of[LINK_DISK_HOST] = to_disk;
	p->has_links = true;
	return ERR_NONE;
}

int run_parts_configure(struct run_parts *p, struct err *e)
{
	struct engine_config *c = &p->config;
	*c = p->settings->engine;
	c->seed = p->settings->seed;
	c->order.slo_ttft_ns = p->settings->slo.ttft_ns > 0 ? p->settings->slo.ttft_ns : 0;
	c->order.slo_tpot_ns = p->settings->slo.tpot_ns > 0 ? p->settings->slo.tpot_ns : 0;
	c->abort_after_ns = (int64_t)(p->settings->abort_after_s * 1e9);
	if (p->settings->abort_after_s > 0 && !c->abort_after_ns)
		c->abort_after_ns = 1;
	if (p->has_model && !c->model_max_len)
		c->model_max_len = p->model.max_len;
	if (p->has_model && !c->window)
		c->window = p->model.window;
	int rc = find_kv_window(p, c, e);
	if (rc == ERR_NONE)
		rc = count_blocks(p, e);
	return rc ? rc : count_tier_blocks(p, e);
}
