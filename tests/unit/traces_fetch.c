/* Downloads against a small HTTP server of our own on the loopback interface, one behaviour per path. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/err.h"
#include "core/near.h"
#include "tests/support/suite.h"
#include "traces/fetch.h"
#include "traces/sha256.h"

#define BODY 300000

static int server_fd, server_port;
static pid_t server_pid;
static char body[2][BODY]; /* two versions of the file */

static void fill_bodies(void)
{
	for (int v = 0; v < 2; v++)
		for (int i = 0; i < BODY; i++)
			body[v][i] = (char)('a' + (i * 7 + i / 1000 + v) % 26);
}

/* ---- the server ---- */

struct ask {
	char path[128];
	char if_range[64];
	long from; /* of "Range: bytes=FROM-", -1 = none */
};

static void answer(int fd, const char *head, const char *data, long len)
{
	if (send(fd, head, strlen(head), MSG_NOSIGNAL) < 0)
		return;
	for (long sent = 0; sent < len;) {
		ssize_t n = send(fd, data + sent, (size_t)(len - sent), MSG_NOSIGNAL);
		if (n <= 0)
			return;
		sent += n;
	}
}

static void answer_file(int fd, const struct ask *a, int version, long send_only)
{
	char head[400];
	long from = a->from < 0 ? 0 : a->from;
	if (a->from >= BODY) {
		snprintf(head, sizeof head,
			 "HTTP/1.1 416 no\r\nContent-Range: bytes */%d\r\nContent-Length: 0\r\nConnection: "
			 "close\r\n\r\n",
			 BODY);
		answer(fd, head, "", 0);
		return;
	}
	int n = snprintf(head, sizeof head,
			 "HTTP/1.1 %s\r\nETag: \"v%d\"\r\nContent-Length: %ld\r\nConnection: close\r\n",
			 a->from < 0 ? "200 OK" : "206 Partial Content", version, BODY - from);
	if (a->from >= 0)
		n += snprintf(head + n, sizeof head - (size_t)n, "Content-Range: bytes %ld-%d/%d\r\n", from, BODY - 1,
			      BODY);
	snprintf(head + n, sizeof head - (size_t)n, "\r\n");
	long len = BODY - from;
	answer(fd, head, body[version - 1] + from, send_only > 0 && send_only < len ? send_only : len);
}

static void serve_one(int fd, struct ask *a)
{
	if (!strncmp(a->path, "/whole", 6)) {
		answer_file(fd, a, 1, 0);
	} else if (!strncmp(a->path, "/norange", 8)) {
		a->from = -1;
		answer_file(fd, a, 1, 0);
	} else if (!strncmp(a->path, "/cut", 4)) { /* breaks off unless asked for the rest */
		answer_file(fd, a, 1, a->from < 0 ? BODY / 2 : 0);
	} else if (!strncmp(a->path, "/changed", 8)) { /* the file is another one by the second request */
		if (a->from >= 0 && !strcmp(a->if_range, "\"v1\""))
			a->from = -1, answer_file(fd, a, 2, 0);
		else
			answer_file(fd, a, 1, BODY / 3);
	} else if (!strncmp(a->path, "/redirect", 9)) {
		answer(fd,
		       "HTTP/1.1 302 Found\r\nLocation: /whole.csv\r\nContent-Length: 5\r\nConnection: "
		       "close\r\n\r\nmoved",
		       "", 0);
	} else if (!strncmp(a->path, "/loop", 5)) {
		answer(fd, "HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		       "", 0);
	} else if (!strncmp(a->path, "/busy", 5)) {
		answer(fd, "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwait", "", 0);
	} else if (!strncmp(a->path, "/empty", 6)) {
		answer(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "", 0);
	} else {
		answer(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: close\r\n\r\nnot here!", "", 0);
	}
}

static void serve(void)
{
	for (;;) {
		char text[4096];
		size_t have = 0;
		int fd = accept(server_fd, NULL, NULL);
		if (fd < 0)
			continue;
		while (have < sizeof text - 1) {
			ssize_t n = recv(fd, text + have, sizeof text - 1 - have, 0);
			if (n <= 0)
				break;
			have += (size_t)n;
			text[have] = '\0';
			if (strstr(text, "\r\n\r\n"))
				break;
		}
		text[have] = '\0';
		struct ask a = {.from = -1};
		sscanf(text, "GET %127s", a.path);
		const char *range = strstr(text, "\r\nRange: bytes="), *tag = strstr(text, "\r\nIf-Range: ");
		if (range)
			a.from = atol(range + 15);
		if (tag)
			sscanf(tag + 12, "%63s", a.if_range);
		serve_one(fd, &a);
		shutdown(fd, SHUT_WR);
		close(fd);
	}
}

static void stop_server(void)
{
	if (server_pid > 0) {
		kill(server_pid, SIGKILL);
		waitpid(server_pid, NULL, 0);
	}
}

static int start_server(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	server_fd = socket(AF_INET, SOCK_STREAM, 0);
	if (server_fd < 0 || bind(server_fd, (struct sockaddr *)&at, sizeof at) || listen(server_fd, 16) ||
	    getsockname(server_fd, (struct sockaddr *)&at, &len))
		return -1;
	server_port = ntohs(at.sin_port);
	server_pid = fork();
	if (server_pid == 0)
		serve();
	return server_pid < 0 ? -1 : 0;
}

/* ---- the tests ---- */

static char url_text[160];

static const char *url(const char *path)
{
	snprintf(url_text, sizeof url_text, "http://127.0.0.1:%d%s", server_port, path);
	return url_text;
}

static void digest_of(int version, char hex[65])
{
	struct sha256 s;
	sha256_begin(&s);
	sha256_add(&s, body[version - 1], BODY);
	sha256_end(&s, hex);
}

/* The file's version, 0 = neither. */
static int version_of(const char *path)
{
	static char got[BODY + 1];
	FILE *f = fopen(path, "r");
	if (!f)
		return 0;
	size_t n = fread(got, 1, sizeof got, f);
	fclose(f);
	for (int v = 0; v < 2; v++)
		if (n == BODY && !memcmp(got, body[v], BODY))
			return v + 1;
	return 0;
}

static const char *beside(const char *path, const char *suffix)
{
	static char text[2][1024];
	static int turn;
	turn = !turn;
	snprintf(text[turn], sizeof text[turn], "%s%s", path, suffix);
	return text[turn];
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

static void a_whole_file_arrives_with_its_checksum_beside_it(void)
{
	char want[65], line[200] = "";
	digest_of(1, want);
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/whole.csv"), .path = temp_path("whole.csv"), .sha256 = want};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(version_of(q.path), 1);
	CHECK_INT(r.bytes, BODY);
	CHECK_INT(r.resumed_at, 0);
	CU_ASSERT(r.checked && !r.existed);
	CHECK_STR(r.sha256, want);
	FILE *f = fopen(beside(q.path, ".sha256"), "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_PTR_NOT_NULL(fgets(line, sizeof line, f));
	fclose(f);
	CU_ASSERT(!strncmp(line, want, 64));
	CHECK_STR(line + 64, "  whole.csv\n");
	CU_ASSERT(!exists(beside(q.path, ".part")) && !exists(beside(q.path, ".part.tag")));
	/* a second time: nothing is asked of the server, and what is remembered is compared */
	q.url = "http://127.0.0.1:1/nobody-listens-here";
	q.sha256 = NULL;
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CU_ASSERT(r.existed && r.remembered && !r.checked);
	/* and a file that has changed on disk is noticed */
	f = fopen(q.path, "a");
	fputc('x', f);
	fclose(f);
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "remembered from last time"));
	/* --force fetches it anew */
	q.url = url("/whole.csv");
	q.force = true;
	err_clear(&e);
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(version_of(q.path), 1);
}

static void a_download_cut_short_goes_on_where_it_stopped(void)
{
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/cut.csv"), .path = temp_path("cut.csv")};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "stopped after 150000 bytes"));
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "the same command goes on from there"));
	CU_ASSERT(exists(beside(q.path, ".part")) && !exists(q.path));
	err_clear(&e);
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(r.resumed_at, BODY / 2);
	CHECK_INT(version_of(q.path), 1);
}

static void a_server_without_ranges_starts_over(void)
{
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/norange.csv"), .path = temp_path("norange.csv")};
	FILE *f = fopen(beside(q.path, ".part"), "w");
	fputs("the beginning of something", f);
	fclose(f);
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(r.resumed_at, 0);
	CHECK_INT(version_of(q.path), 1);
}

static void a_file_that_changed_meanwhile_is_not_patched_together(void)
{
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/changed.csv"), .path = temp_path("changed.csv")};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	err_clear(&e);
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(version_of(q.path), 2);
	CHECK_INT(r.resumed_at, 0);
}

static void a_part_that_is_already_whole_is_taken(void)
{
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/whole.csv"), .path = temp_path("all.csv")};
	FILE *f = fopen(beside(q.path, ".part"), "w");
	fwrite(body[0], 1, BODY, f);
	fclose(f);
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(r.resumed_at, BODY);
	CHECK_INT(version_of(q.path), 1);
	/* longer than the file on the server: from the start */
	q.path = temp_path("long.csv");
	f = fopen(beside(q.path, ".part"), "w");
	fwrite(body[1], 1, BODY, f);
	fputs("and more", f);
	fclose(f);
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(r.resumed_at, 0);
	CHECK_INT(version_of(q.path), 1);
}

static void a_wrong_checksum_is_refused_and_named(void)
{
	char want[65];
	digest_of(2, want);
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/whole.csv"), .path = temp_path("wrong.csv"), .sha256 = want};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "but the expected one is"));
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, want));
	CU_ASSERT(!exists(q.path) && !exists(beside(q.path, ".part")) && exists(beside(q.path, ".part.bad")));
}

static void redirects_are_followed_but_not_for_ever(void)
{
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/redirect.csv"), .path = temp_path("redirect.csv")};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(version_of(q.path), 1);
	q.url = url("/loop");
	q.path = temp_path("loop.csv");
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "redirects"));
}

static void errors_leave_no_file_and_say_what_to_do(void)
{
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/missing.csv"), .path = temp_path("missing.csv")};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(e.text, "the server has no such file (404); it may have moved: --url names another"));
	CU_ASSERT(!exists(q.path) && !exists(beside(q.path, ".part")));
	err_clear(&e);
	q.url = url("/busy");
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "the server answered 503"));
	err_clear(&e);
	q.url = "http://127.0.0.1:1/x";
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "127.0.0.1"));
	err_clear(&e);
	q.url = "file:///etc/passwd"; /* only the web */
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	err_clear(&e);
	q.url = url("/whole.csv");
	q.path = "/nowhere/at/all.csv";
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "/nowhere/at/all.csv.part: cannot be written"));
}

static void an_empty_file_is_a_file(void)
{
	struct fetch_result r;
	struct err e = {0};
	struct fetch_request q = {.url = url("/empty"), .path = temp_path("empty")};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(r.bytes, 0);
	CHECK_STR(r.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

struct seen {
	int64_t have, total;
	int calls, stop_after;
};

static int watch(void *ctx, int64_t have, int64_t total)
{
	struct seen *s = ctx;
	CU_ASSERT(have >= s->have);
	s->have = have;
	s->total = total;
	return have > 0 && ++s->calls > s->stop_after;
}

static void progress_is_told_and_may_stop_it(void)
{
	struct fetch_result r;
	struct err e = {0};
	struct seen s = {.stop_after = 1 << 20};
	struct fetch_request q = {.url = url("/whole.csv"), .path = temp_path("p.csv"), .progress = watch, .ctx = &s};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(s.have, BODY);
	CHECK_INT(s.total, BODY);
	s = (struct seen){.stop_after = 0};
	q.path = temp_path("stopped.csv");
	int code = fetch_file(&q, &r, &e);
	CHECK_INT(code, ERR_INTERRUPTED);
	CU_ASSERT(!exists(q.path));
	err_clear(&e);
	q.progress = NULL;
	CHECK_INT(fetch_file(&q, &r, &e), ERR_NONE);
	CHECK_INT(version_of(q.path), 1);
}

static void the_proxy_of_the_environment_is_used(void)
{
	struct fetch_result r;
	struct err e = {0};
	char proxy[64];
	snprintf(proxy, sizeof proxy, "http://127.0.0.1:%d", server_port);
	setenv("http_proxy", proxy, 1);
	/* our server as the proxy gets the whole address as its path, which it does not know: 404, not a lookup error */
	struct fetch_request q = {.url = "http://trace.invalid/whole.csv", .path = temp_path("proxied.csv")};
	CHECK_INT(fetch_file(&q, &r, &e), ERR_IO);
	CU_ASSERT_PTR_NOT_NULL(strstr(e.text, "(404)"));
	unsetenv("http_proxy");
}

static void the_table_is_well_formed_and_near_names_are_offered(void)
{
	for (int i = 0; i < fetch_n_traces; i++) {
		const struct fetch_trace *t = &fetch_traces[i];
		CU_ASSERT(!strncmp(t->url, "https://", 8));
		CU_ASSERT(t->file && *t->file && !strchr(t->file, '/'));
		CU_ASSERT(t->format && t->licence && t->about);
		CU_ASSERT(!t->sha256 || strlen(t->sha256) == 64);
		CU_ASSERT_PTR_EQUAL(fetch_find(t->name, NULL), t);
		for (int k = 0; k < i; k++)
			CU_ASSERT(strcmp(t->file, fetch_traces[k].file) != 0);
	}
	struct near_match near;
	CU_ASSERT_PTR_NULL(fetch_find("azure-2023-cnov", &near));
	CU_ASSERT_FATAL(near.n > 0);
	CHECK_STR(near.best[0], "azure-2023-conv");
	CU_ASSERT_PTR_NULL(fetch_find("sharegbt", &near));
	CU_ASSERT_FATAL(near.n > 0);
	CHECK_STR(near.best[0], "sharegpt");
	CU_ASSERT_PTR_NULL(fetch_find("qqqqqqqq", &near));
	CHECK_INT(near.n, 0);
}

int main(void)
{
	static const struct test tests[] = {
		{"a_whole_file_arrives_with_its_checksum_beside_it", a_whole_file_arrives_with_its_checksum_beside_it},
		{"a_download_cut_short_goes_on_where_it_stopped", a_download_cut_short_goes_on_where_it_stopped},
		{"a_server_without_ranges_starts_over", a_server_without_ranges_starts_over},
		{"a_file_that_changed_meanwhile_is_not_patched_together",
		 a_file_that_changed_meanwhile_is_not_patched_together},
		{"a_part_that_is_already_whole_is_taken", a_part_that_is_already_whole_is_taken},
		{"a_wrong_checksum_is_refused_and_named", a_wrong_checksum_is_refused_and_named},
		{"redirects_are_followed_but_not_for_ever", redirects_are_followed_but_not_for_ever},
		{"errors_leave_no_file_and_say_what_to_do", errors_leave_no_file_and_say_what_to_do},
		{"an_empty_file_is_a_file", an_empty_file_is_a_file},
		{"progress_is_told_and_may_stop_it", progress_is_told_and_may_stop_it},
		{"the_proxy_of_the_environment_is_used", the_proxy_of_the_environment_is_used},
		{"the_table_is_well_formed_and_near_names_are_offered",
		 the_table_is_well_formed_and_near_names_are_offered},
	};
	/* a proxy of the machine would stand between us and our own server */
	static const char *const proxies[] = {"http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"};
	for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++)
		unsetenv(proxies[i]);
	unsetenv("no_proxy");
	unsetenv("NO_PROXY");
	fill_bodies();
	if (start_server()) {
		perror("test server");
		return 1;
	}
	int rc = SUITE_RUN("traces_fetch", tests);
	stop_server();
	return rc;
}
