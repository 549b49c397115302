/* matmul_library.c: products by oneDNN. The weights stay as they are packed; a strip of them, some hundred outputs, is
 * widened at a time, so that no second copy is held. Each of our threads takes strips, and the library runs on it alone. */
#include "kernels/cpu/matmul_impl.h"

#include <stdatomic.h>
#include <string.h>

/* Outputs of a strip, at most. Measured: 28 GFLOP/s at 64 rows, 34 at 512; with 512 outputs or k in parts it is less. */
enum { STRIP_OUT = 256 };

struct strips {
	const struct matmul *mm;
	const struct matrix *m;
	float *y;
	const float *x;
	int32_t rows;
	int32_t strip_panels; /* per strip */
	atomic_int failed;
};

static size_t strip_floats(const struct matrix *m)
{
	return (size_t)m->n_in * (STRIP_OUT + MATMUL_MAX_PANEL);
}

/* strip[n_in][panels] of the panels from `first` on. */
static void widen_strip(const struct strips *s, float *strip, int32_t first, int32_t panels)
{
	const struct matrix *m = s->m;
	enum line_kind kind = m->type == NUM_F32 ? LINE_F32 : m->type == NUM_BF16 ? LINE_BF16 : LINE_I8;
	for (int32_t p = 0; p < panels; p++)
		s->mm->isa->widen[kind](strip + p * m->panel, (int64_t)panels * m->panel,
					m->w + (size_t)(first + p) * m->panel_bytes, m->n_in);
}

static void run_strip(void *ctx, int32_t task, int32_t thread)
{
	struct strips *s = ctx;
	const struct matrix *m = s->m;
	int32_t first = task * s->strip_panels;
	int32_t panels = m->n_panels - first < s->strip_panels ? m->n_panels - first : s->strip_panels;
	int32_t o = first * m->panel, n = m->n_out - o < panels * m->panel ? m->n_out - o : panels * m->panel;
	float *strip = s->mm->strips + (size_t)thread * strip_floats(m), *y = s->y + o;
	if (s->mm->library.set_threads)
		s->mm->library.set_threads(1);
	widen_strip(s, strip, first, panels);
	if (s->mm->library.sgemm('N', 'N', s->rows, n, m->n_in, 1, s->x, m->n_in, strip, (int64_t)panels * m->panel, 0,
				 y, m->n_out))
		atomic_store(&s->failed, 1);
	if (m->scale || m->bias)
		s->mm->isa->finish(y, m->n_out, y, m->n_out, s->rows, n, NULL, m->scale ? m->scale + o : NULL,
				   m->bias ? m->bias + o : NULL);
}

int matmul_by_library(struct matmul *mm, float *y, const float *x, int32_t rows, const struct matrix *m)
{
	struct strips s = {.mm = mm, .m = m, .x = x, .rows = rows};
	s.y = y;
	int32_t threads = pool_threads(mm->pool);
	if (!matmul_grow(&mm->strips, &mm->max_strips, (size_t)threads * strip_floats(m), sizeof *mm->strips))
		return -1;
	/* As many strips for one thread as for the other. */
	int32_t n = (m->n_out + STRIP_OUT - 1) / STRIP_OUT;
	n = (n + threads - 1) / threads * threads;
	s.strip_panels = (m->n_panels + n - 1) / n;
	pool_run(mm->pool, run_strip, &s, (m->n_panels + s.strip_panels - 1) / s.strip_panels);
	return s.failed ? -1 : 0;
}
