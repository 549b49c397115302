/* tape_batch.h: batches in flight, as recorder and player remember them: by a digest of what each asks for. */
#ifndef EXEC_TAPE_BATCH_H
#define EXEC_TAPE_BATCH_H

#include <stdint.h>

#include "core/batch.h"

struct err;

struct tape_flight {
	int64_t step, decode_ctx, repeat, until_ns;
	int32_t decodes;
	uint64_t rest; /* digest of all that stays the same when the batch is repeated */
};

/* At most two, the second only with asynchronous scheduling. */
struct tape_flights {
	struct tape_flight at[2];
	int64_t begun, ended;
};

/* ERR_INVARIANT: a third one. */
int tape_flight_begin(struct tape_flights *f, const struct batch *b, struct err *e);
/* The oldest; NULL when nothing is in flight. */
const struct tape_flight *tape_flight_oldest(const struct tape_flights *f);
/* What its i-th repetition (from 0) asks for: one step on, and one token of context more for each decode. */
uint64_t tape_flight_digest(const struct tape_flights *f, int64_t i);
void tape_flight_end(struct tape_flights *f);

#endif
