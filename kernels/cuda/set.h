/* set.h: what the files of the CUDA set share. They are C over the CUDA runtime's API; kernels are behind ops_cuda.h. All
 * work goes to one stream, in the order of the calls. */
#ifndef KERNELS_CUDA_SET_H
#define KERNELS_CUDA_SET_H

#include <cuda_runtime_api.h>

#include "kernels/cuda.h"
#include "kernels/cuda/ops_cuda.h"

struct blas;

/* --- errors (set_error.c) --------------------------------------------------------------------------------------------- */

struct cuda_error {
	char text[400];
	bool sticky; /* the device's context is gone: nothing works any more, the first reason stays */
	char last[96]; /* the operation started last */
};

/* --- host memory that the device copies from and to (set_memory.c) ----------------------------------------------------- */

enum { UPLOAD_SLOTS = 4, UPLOAD_BYTES = 8 << 20 };

/* What is uploaded goes through pinned memory, so that the caller may go on while it is copied. */
struct uploads {
	char *host; /* pinned [UPLOAD_SLOTS][UPLOAD_BYTES] */
	cudaEvent_t done[UPLOAD_SLOTS]; /* the slot was copied from */
	int next;
};

/* What finish() hands out. */
struct later {
	void *to;
	size_t at, bytes; /* in `host` */
};
struct downloads {
	char *host; /* pinned */
	size_t cap, used;
	struct later *list; /* [n] */
	int n, list_cap;
};

/* --- KV pages beside the steps (set_pages.c) --------------------------------------------------------------------------- */

struct copying {
	int64_t ticket; /* 0: none, the event may be used again */
	cudaEvent_t done;
};
struct copies {
	cudaStream_t stream; /* made with the first copy */
	cudaEvent_t before; /* the work that a copy comes after */
	struct copying *list; /* [n] */
	int n;
	int64_t last; /* ticket given */
};

/* Memory of the set's own, which grows with what is asked of it. */
struct scratch {
	void *at;
	size_t cap;
};

/* --- time (set_time.c) ------------------------------------------------------------------------------------------------- */

/* A place in the stream. From it to the next one the device works on `part`, or on what a graph recorded. */
struct mark {
	cudaEvent_t event;
	enum part part; /* N_PARTS: none */
	struct recorded *graph; /* NULL, or `part` is to be split as the graph's parts are */
};
struct marks {
	struct mark *list; /* [cap]; events are kept and used again */
	int n, cap;
};

/* --- graphs (set_graph.c) ---------------------------------------------------------------------------------------------- */

/* One recorded piece of work. Events inside a graph cost about a microsecond each, hundreds of them a step, so there are
 * two of it: a bare one, and one with a mark between parts, replayed now and then to learn how time splits. */
struct recorded {
	uint64_t key;
	int32_t seen; /* times it was asked for */
	cudaGraphExec_t bare, marked;
	struct marks inside; /* of the marked one */
	double share[N_PARTS]; /* of its time, by the last marked replay */
	struct recorded *next;
};

enum { MARKED_EVERY = 32 };

struct graphs {
	struct recorded *list;
	struct recorded *now; /* between begin and end; NULL: nothing is recorded or replayed */
	bool recording, marked; /* of `now` */
	bool off;
};

/* --- the set ------------------------------------------------------------------------------------------------------------ */

enum { FAULTS = 1024 }; /* attention calls of a step whose reads are verified */

struct cuda_set {
	struct kernel_set base; /* first: a kernel_set * is one of these */
	struct cuda_error error;
	int device, sms, arch; /* arch: 90 for compute capability 9.0 */
	cudaStream_t stream;
	struct blas *blas;
	struct uploads uploads;
	struct downloads downloads;
	struct copies copies;
	struct marks marks;
	struct graphs graphs;
	struct scratch attention, products;
	/* The attention call before this one, whose list of tiles may be used again. */
	struct cuda_attention_plan plan;
	const int32_t *plan_rows;
	bool planned;
	/* Reads that found another's tag: device [FAULTS], and who is to be told. */
	struct tag_fault *faults;
	struct tag_fault **told;
	int n_faults;
};

static inline struct cuda_set *cuda_set_of(struct kernel_set *k)
{
	return (struct cuda_set *)k;
}

/* 0, or -1 with what failed in words: cuda_check(s, cudaMemcpy(...), "copying %zu bytes", n). */
__attribute__((format(printf, 3, 4))) int cuda_check(struct cuda_set *s, int status, const char *what, ...);
/* -1 with these words. */
__attribute__((format(printf, 2, 3))) int cuda_refuse(struct cuda_set *s, const char *what, ...);
const char *cuda_error(struct kernel_set *k);

/* NULL is fine. */
void cuda_close(struct kernel_set *k);

int cuda_memory_open(struct cuda_set *s);
void cuda_memory_close(struct cuda_set *s);
void *cuda_alloc(struct kernel_set *k, size_t bytes);
void cuda_release(struct kernel_set *k, void *device);
int cuda_upload(struct kernel_set *k, void *device, const void *host, size_t bytes);
int cuda_download(struct kernel_set *k, void *host, const void *device, size_t bytes);
int cuda_download_later(struct kernel_set *k, void *host, const void *device, size_t bytes);
int cuda_memory(struct kernel_set *k, int64_t *free_bytes, int64_t *total_bytes);
/* Hands out what was downloaded; the stream has been waited for. */
void cuda_downloads_deliver(struct cuda_set *s);
/* Room for bytes; what was in it is lost when it grows. `what` is it for? */
int cuda_fit(struct cuda_set *s, struct scratch *r, size_t bytes, const char *what);

void *cuda_host_alloc(struct kernel_set *k, size_t bytes);
void cuda_host_release(struct kernel_set *k, void *host);
int cuda_pages_copy(struct kernel_set *k, const struct page_part *parts, int32_t n, bool out, int64_t *ticket);
int cuda_pages_done(struct kernel_set *k, int64_t ticket, bool wait, bool *done);
int cuda_pages_before(struct kernel_set *k, int64_t ticket);
void cuda_pages_close(struct cuda_set *s);

int cuda_mark(struct kernel_set *k, enum part p);
int cuda_mark_graph(struct cuda_set *s, struct recorded *g);
int cuda_finish(struct kernel_set *k, int64_t part_ns[N_PARTS]);
void cuda_marks_free(struct marks *m);
/* Records an event, now (external: as a node of the graph that is being recorded). */
int cuda_marks_add(struct cuda_set *s, struct marks *m, enum part p, bool external);

int cuda_graph_begin(struct kernel_set *k, uint64_t key, enum graph *how);
int cuda_graph_end(struct kernel_set *k);
/* All of them: memory that they use is going to be somewhere else. */
void cuda_graphs_drop(struct cuda_set *s);

/* Matrices (matmul.c). */
int cuda_pack(struct kernel_set *k, struct matrix **out, const struct matrix_part *parts, int32_t n_parts, int32_t n_in,
	      enum num as);
void cuda_unpack_free(struct kernel_set *k, struct matrix *m);
size_t cuda_matrix_bytes(const struct matrix *m);
int cuda_matmul(struct kernel_set *k, void *y, const void *x, int32_t rows, const struct matrix *w);
int cuda_matmul_f32(struct kernel_set *k, float *y, const void *x, int32_t rows, const struct matrix *w);

/* Operations on rows and attention, as kernels/ops.h has them (set_ops.c). */
extern const struct kernel_ops cuda_ops;

#endif
