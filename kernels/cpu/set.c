/* set.c: the CPU's set of kernels: opening it, its memory, its clock, and the table of its operations. */
#include "kernels/cpu/set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/cpu/quota.h"

static const struct row_isa *const row_isas[N_CPU_ISAS] = CPU_ISA_TABLES(row_isa);

static const char *cpu_error(struct kernel_set *k)
{
	return cpu_set_of(k)->error;
}

static void cpu_close(struct kernel_set *k)
{
	struct cpu_set *s = cpu_set_of(k);
	if (!k)
		return;
	attention_close(&s->attention);
	matmul_close(s->matmul);
	pool_destroy(s->pool);
	free(s);
}

/* --- memory -------------------------------------------------------------------------------------------------------- */

enum { HUGE_PAGE = 2 << 20 };

/* From one huge page up the kernel is asked for huge pages: a table of pages that misses costs as much as a read. */
static void *cpu_alloc(struct kernel_set *k, size_t bytes)
{
	size_t align = bytes >= HUGE_PAGE ? HUGE_PAGE : 64, size = (bytes / align + 1) * align;
	void *p = size > bytes ? aligned_alloc(align, size) : NULL;
	if (!p) {
		snprintf(cpu_set_of(k)->error, sizeof cpu_set_of(k)->error, "out of memory for %zu bytes", bytes);
		return NULL;
	}
#ifdef MADV_HUGEPAGE
	if (align == HUGE_PAGE)
		madvise(p, size, MADV_HUGEPAGE); /* a wish: without it things are slower, no more */
#endif
	memset(p, 0, bytes ? bytes : 1);
	return p;
}

static void cpu_release(struct kernel_set *k, void *device)
{
	(void)k;
	free(device);
}

static int cpu_copy(struct kernel_set *k, void *to, const void *from, size_t bytes)
{
	(void)k;
	if (bytes)
		memcpy(to, from, bytes);
	return 0;
}

/* --- matrix products ----------------------------------------------------------------------------------------------- */

static int cpu_pack(struct kernel_set *k, struct matrix **out, const struct matrix_part *parts, int32_t n_parts,
		    int32_t n_in, enum num as)
{
	struct cpu_set *s = cpu_set_of(k);
	return matmul_pack(s->matmul, out, parts, n_parts, n_in, as, s->error, sizeof s->error);
}

static void cpu_unpack_free(struct kernel_set *k, struct matrix *m)
{
	(void)k;
	matmul_free(m);
}

static int cpu_matmul_f32(struct kernel_set *k, float *y, const void *x, int32_t rows, const struct matrix *w)
{
	struct cpu_set *s = cpu_set_of(k);
	if (rows < 1 || matmul_run(s->matmul, y, x, rows, w) == 0)
		return 0;
	snprintf(s->error, sizeof s->error, "out of memory for a matrix product of %d rows", (int)rows);
	return -1;
}

static int cpu_tune(struct kernel_set *k, const struct matrix *w, int32_t max_rows)
{
	struct cpu_set *s = cpu_set_of(k);
	if (matmul_tune(s->matmul, w, max_rows) == 0)
		return 0;
	snprintf(s->error, sizeof s->error, "out of memory for timing matrix products of %d rows", (int)max_rows);
	return -1;
}

static int cpu_matmul(struct kernel_set *k, void *y, const void *x, int32_t rows, const struct matrix *w)
{
	return cpu_matmul_f32(k, y, x, rows, w);
}

/* --- attention ----------------------------------------------------------------------------------------------------- */

/* The pages the kernels of kernels/cpu/isa read and write. */
static const char *cpu_refuses(struct kernel_set *k, const struct attention_shape *a, const struct kv_shape *s)
{
	(void)k;
	(void)a;
	if (s->type == NUM_F32 || s->type == NUM_BF16 || s->type == NUM_I8)
		return NULL;
	return s->type == NUM_F8 ? "it has no fp8 KV pages: f32, bf16 or int8"
				 : "it has no f16 KV pages: f32, bf16 or int8";
}

static int cpu_attention(struct kernel_set *k, void *out, const void *qkv, const struct step_rows *r,
			 const struct attention_shape *a, const struct kv_shape *s, const struct kv_layer *kv,
			 struct tag_fault *bad)
{
	struct cpu_set *set = cpu_set_of(k);
	struct attention_call c = {.out = out, .qkv = qkv, .rows = r, .shape = a, .kv_shape = s, .kv = kv, .bad = bad};
	if (attention_run(&set->attention, set->pool, &c) == 0)
		return 0;
	snprintf(set->error, sizeof set->error, "out of memory for attention over %d rows", (int)r->n_rows);
	return -1;
}

/* --- time ---------------------------------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Kernels end before they return: what has passed is what was spent. */
static int cpu_mark(struct kernel_set *k, enum part p)
{
	struct cpu_set *s = cpu_set_of(k);
	int64_t now = now_ns();
	if (s->part != N_PARTS)
		s->part_ns[s->part] += now - s->part_since_ns;
	s->part_since_ns = now;
	s->part = p;
	return 0;
}

static int cpu_finish(struct kernel_set *k, int64_t part_ns[N_PARTS])
{
	struct cpu_set *s = cpu_set_of(k);
	cpu_mark(k, N_PARTS);
	if (part_ns)
		memcpy(part_ns, s->part_ns, sizeof s->part_ns);
	memset(s->part_ns, 0, sizeof s->part_ns);
	return 0;
}

/* --- opening ------------------------------------------------------------------------------------------------------- */

static const struct kernel_ops cpu_ops = {
	.name = "cpu",
	.error = cpu_error,
	.close = cpu_close,
	.alloc = cpu_alloc,
	.release = cpu_release,
	.upload = cpu_copy,
	.download = cpu_copy,
	.download_later = cpu_copy,
	.refuses = cpu_refuses,
	.pack = cpu_pack,
	.unpack_free = cpu_unpack_free,
	.matrix_bytes = matmul_bytes,
	.matmul = cpu_matmul,
	.tune = cpu_tune,
	.matmul_f32 = cpu_matmul_f32,
	.embed = cpu_embed,
	.rms_norm = cpu_rms_norm,
	.add_rms_norm = cpu_add_rms_norm,
	.rope_kv = cpu_rope_kv,
	.attention = cpu_attention,
	.silu_mul = cpu_silu_mul,
	.gather = cpu_gather,
	.argmax = cpu_argmax,
	.copy_pages = cpu_copy_pages,
	.mark = cpu_mark,
	.finish = cpu_finish,
};

/* The instruction set by name, or the best. */
static int choose_isa(const char *name, enum cpu_isa *out, char *why, size_t size)
{
	char usable[64] = "";
	*out = cpu_isa_best();
	if (!name)
		return 0;
	for (int i = 0; i < N_CPU_ISAS; i++) {
		bool can = cpu_isa_usable((enum cpu_isa)i);
		if (can && strcmp(name, cpu_isa_names[i]) == 0) {
			*out = (enum cpu_isa)i;
			return 0;
		}
		if (can)
			snprintf(usable + strlen(usable), sizeof usable - strlen(usable), "%s%s", *usable ? ", " : "",
				 cpu_isa_names[i]);
	}
	snprintf(why, size, "no kernels for instruction set \"%s\" on this machine (it has: %s)", name, usable);
	return -1;
}

/* The processors this process may run on, but no more than it is granted the time of: threads beyond that wait for each
 * other. */
static int32_t usable_threads(void)
{
	int32_t threads = pool_default_threads(), quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
	return quota > 0 && quota < threads ? quota : threads;
}

static void describe(struct cpu_set *s)
{
	const char *library = matmul_library(s->matmul);
	int32_t n = pool_threads(s->pool);
	snprintf(s->base.what, sizeof s->base.what, "cpu %s, %s, %d thread%s", cpu_isa_names[s->isa],
		 library ? library : "matrix products of our own", (int)n, n == 1 ? "" : "s");
}

int cpu_kernels_open(struct kernel_set **out, const struct cpu_options *o, char *why, size_t size)
{
	enum cpu_isa isa;
	*out = NULL;
	if (o->threads < 0 || o->threads > 1024) {
		snprintf(why, size, "%d threads: must be 0 (as many as there are) to 1024", (int)o->threads);
		return -1;
	}
	if (choose_isa(o->isa, &isa, why, size))
		return -1;
	struct cpu_set *s = calloc(1, sizeof *s);
	if (!s || pool_create(&s->pool, o->threads > 0 ? o->threads : usable_threads(), -1)) {
		snprintf(why, size, "%s", s ? "threads cannot be started" : "out of memory");
		free(s);
		return -1;
	}
	if (matmul_open(&s->matmul, s->pool, isa, !o->no_library && !o->batch_invariant, why, size)) {
		cpu_close(&s->base);
		return -1;
	}
	s->base.ops = &cpu_ops;
	s->base.act = NUM_F32;
	s->base.threads = pool_threads(s->pool);
	s->isa = isa;
	s->row = row_isas[isa];
	attention_open(&s->attention, isa);
	s->part = N_PARTS;
	describe(s);
	*out = &s->base;
	return 0;
}
