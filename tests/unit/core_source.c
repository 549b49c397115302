/* Where arrivals come from. */
#include "core/err.h"
#include "core/source.h"
#include "core/workload.h"
#include "tests/support/suite.h"

static struct workload w;
static struct source *src;
static struct err err;

static void add(int64_t arrival_ns)
{
	struct spec s = {
		.arrival_ns = arrival_ns, .name_at = -1, .prompt_tokens = 1, .output_tokens = 1, .session = -1};
	s.row = (int32_t)w.n + 1;
	CU_ASSERT_FATAL(workload_add(&w, &s, &err) == ERR_NONE);
}

static void begin(void)
{
	workload_init(&w);
	err = (struct err){0};
}

static void open_source(int32_t max_concurrency)
{
	CU_ASSERT_FATAL(source_create(&src, &w, max_concurrency, &err) == ERR_NONE);
}

static void end(void)
{
	source_free(src);
	workload_free(&w);
}

/* The request popped at now, which was meant to arrive at arrival_ns; or nothing: -1. */
static void expect(int64_t now_ns, int32_t req, int64_t arrival_ns)
{
	int64_t at = -7;
	CHECK_INT(source_pop(src, now_ns, &at), req);
	if (req >= 0)
		CHECK_INT(at, arrival_ns);
}

static void arrivals_come_in_time_and_file_order(void)
{
	begin();
	add(5);
	add(10);
	add(10);
	open_source(0);
	CHECK_INT(source_next_ns(src), 5);
	expect(4, -1, 0);
	expect(20, 0, 5);
	expect(20, 1, 10);
	CU_ASSERT(!source_done(src));
	expect(20, 2, 10);
	CU_ASSERT(source_done(src));
	CHECK_INT(source_next_ns(src), INT64_MAX);
	expect(INT64_MAX - 1, -1, 0);
	end();
}

/* 0 -> 2 (delay 3), 0 and 1 -> 3 (delay 0). */
static void child_comes_after_the_last_of_its_parents(void)
{
	const int32_t parent[] = {0, 0, 1}, child[] = {2, 3, 3};
	begin();
	add(0);
	add(0);
	add(3);
	add(0);
	CHECK_INT(workload_link(&w, parent, child, 3, &err), ERR_NONE);
	open_source(0);
	expect(0, 0, 0);
	expect(0, 1, 0);
	CHECK_INT(source_next_ns(src), INT64_MAX);
	CU_ASSERT(!source_done(src));
	CHECK_INT(source_ended(src, 0, 40, true, &err), ERR_NONE);
	CHECK_INT(source_next_ns(src), 43);
	expect(42, -1, 0);
	CHECK_INT(source_ended(src, 1, 41, true, &err), ERR_NONE);
	expect(50, 3, 41);
	expect(50, 2, 43);
	CU_ASSERT(source_done(src));
	end();
}

/* Released and trace arrivals merge by time, then index. */
static void released_requests_merge_with_the_trace(void)
{
	const int32_t parent[] = {0}, child[] = {3};
	begin();
	add(0);
	add(10);
	add(10);
	add(2);
	CHECK_INT(workload_link(&w, parent, child, 1, &err), ERR_NONE);
	open_source(0);
	expect(0, 0, 0);
	source_ended(src, 0, 8, true, &err); /* request 3 at 10 */
	expect(10, 1, 10);
	expect(10, 2, 10);
	expect(10, 3, 10);
	end();
}

/* 0 -> 1 -> 2, and 3 by itself: when 0 is rejected, 1 and then 2 never start. */
static void descendants_of_a_failed_request_never_start(void)
{
	const int32_t parent[] = {0, 1}, child[] = {1, 2};
	begin();
	for (int i = 0; i < 4; i++)
		add(0);
	CHECK_INT(workload_link(&w, parent, child, 2, &err), ERR_NONE);
	open_source(0);
	expect(0, 0, 0);
	CHECK_INT(source_pop_orphan(src), -1);
	source_ended(src, 0, 0, false, &err);
	CHECK_INT(source_pop_orphan(src), 1);
	source_ended(src, 1, 0, false, &err);
	CHECK_INT(source_pop_orphan(src), 2);
	source_ended(src, 2, 0, false, &err);
	CHECK_INT(source_pop_orphan(src), -1);
	CU_ASSERT(!source_done(src));
	expect(0, 3, 0);
	CU_ASSERT(source_done(src));
	end();
}

/* Two with the server at most; the third keeps its intended arrival. An orphan takes no place at the client. */
static void client_sends_only_so_many(void)
{
	const int32_t parent[] = {0}, child[] = {4};
	begin();
	add(0);
	add(1);
	add(2);
	add(3);
	add(0);
	CHECK_INT(workload_link(&w, parent, child, 1, &err), ERR_NONE);
	open_source(2);
	expect(5, 0, 0);
	expect(5, 1, 1);
	expect(5, -1, 0);
	CHECK_INT(source_next_ns(src), INT64_MAX);
	source_ended(src, 0, 9, false, &err);
	CHECK_INT(source_pop_orphan(src), 4);
	source_ended(src, 4, 9, false, &err);
	expect(9, 2, 2);
	expect(9, -1, 0);
	source_ended(src, 1, 20, true, &err);
	expect(20, 3, 3);
	CU_ASSERT(source_done(src));
	end();
}

/* An inbox is empty until something is pushed and ends when it is closed; what ends is told upstream. */
static void inbox_passes_ends_upstream(void)
{
	const int32_t parent[] = {0}, child[] = {1};
	struct source *inbox;
	begin();
	add(0);
	add(4);
	CHECK_INT(workload_link(&w, parent, child, 1, &err), ERR_NONE);
	open_source(0);
	CU_ASSERT_FATAL(source_create_inbox(&inbox, src, &err) == ERR_NONE);
	CHECK_INT(source_next_ns(inbox), INT64_MAX);
	CU_ASSERT(!source_done(inbox));
	expect(0, 0, 0);
	CHECK_INT(source_push(inbox, 0, 0, &err), ERR_NONE);
	int64_t at;
	CHECK_INT(source_next_ns(inbox), 0);
	CHECK_INT(source_pop(inbox, 0, &at), 0);
	CHECK_INT(source_ended(inbox, 0, 7, true, &err), ERR_NONE);
	expect(11, 1, 11);
	source_close(inbox);
	CU_ASSERT(source_done(inbox));
	source_free(inbox);
	end();
}

int main(void)
{
	static const struct test tests[] = {
		{"arrivals_come_in_time_and_file_order", arrivals_come_in_time_and_file_order},
		{"child_comes_after_the_last_of_its_parents", child_comes_after_the_last_of_its_parents},
		{"released_requests_merge_with_the_trace", released_requests_merge_with_the_trace},
		{"descendants_of_a_failed_request_never_start", descendants_of_a_failed_request_never_start},
		{"client_sends_only_so_many", client_sends_only_so_many},
		{"inbox_passes_ends_upstream", inbox_passes_ends_upstream},
	};
	return SUITE_RUN("core_source", tests);
}
