#include "traces/fetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/err.h"
#include "core/mem.h"
#include "traces/curl_api.h"
#include "traces/sha256.h"

#define IDLE_SECONDS 60L

/* One download. The file's parts: PATH.part is what has come, PATH.part.tag the server's name of that version (an ETag
 * or a date), so that a file that changed in between is begun anew and not patched together. */
struct transfer {
	const struct curl_api *api;
	const struct fetch_request *q;
	struct fetch_result *out;
	CURL *curl;
	char *part, *tag, *sum, *bad; /* paths */
	FILE *f; /* PATH.part */
	int64_t have; /* bytes in it */
	int64_t total; /* of the whole file, 0 = the server does not say */
	bool begun; /* the answer's status has been looked at */
	bool stopped; /* the caller said so */
	int write_errno;
	char etag[256]; /* of this answer */
	char old_tag[256]; /* of PATH.part.tag */
	int64_t range_total; /* of a Content-Range header, -1 = none */
	char message[CURL_ERROR_SIZE];
};

static char *with_suffix(const char *path, const char *suffix)
{
	size_t a = strlen(path), b = strlen(suffix) + 1;
	char *s = mem_alloc(a + b);
	if (s)
		snprintf(s, a + b, "%s%s", path, suffix);
	return s;
}

/* The first word of a small file, or "". */
static void read_word(const char *path, char *word, size_t size)
{
	word[0] = '\0';
	FILE *f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(word, (int)size, f))
		word[0] = '\0';
	word[strcspn(word, "\r\n")] = '\0';
	fclose(f);
}

static int write_text(const char *path, const char *text, const char *more, struct err *e)
{
	FILE *f = fopen(path, "we");
	bool ok = f && fprintf(f, "%s%s\n", text, more) > 0;
	if (f && fclose(f))
		ok = false;
	return ok ? ERR_NONE : err_set(e, ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
}

/* Size of a file, -1 = not there. */
static int64_t size_of(const char *path)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return -1;
	int64_t n = fseeko(f, 0, SEEK_END) ? -1 : ftello(f);
	fclose(f);
	return n;
}

static int digest_stream(FILE *f, const char *path, char hex[65], int64_t *bytes, struct err *e)
{
	static const size_t size = 1 << 16;
	unsigned char *buffer = mem_alloc(size);
	struct sha256 s;
	if (!buffer)
		return err_no_memory(e, "checksum");
	sha256_begin(&s);
	for (size_t n; (n = fread(buffer, 1, size, f)) > 0;)
		sha256_add(&s, buffer, n);
	mem_free(buffer);
	if (ferror(f))
		return err_set(e, ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
	*bytes = (int64_t)s.bytes;
	sha256_end(&s, hex);
	return ERR_NONE;
}

static int digest(const char *path, char hex[65], int64_t *bytes, struct err *e)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	int code = digest_stream(f, path, hex, bytes, e);
	fclose(f);
	return code;
}

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	size_t len = size * n;
	char text[320];
	size_t keep = len < sizeof text - 1 ? len : sizeof text - 1;
	memcpy(text, line, keep);
	text[keep] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	if (!strncmp(text, "HTTP/", 5)) { /* a new answer, after a redirect: forget the last one's headers */
		t->etag[0] = '\0';
		t->range_total = -1;
	} else if (!strncasecmp(text, "etag:", 5)) {
		const char *v = text + 5 + strspn(text + 5, " ");
		if (strncmp(v, "W/", 2) != 0) /* a weak one does not promise equal bytes */
			snprintf(t->etag, sizeof t->etag, "%s", v);
	} else if (!strncasecmp(text, "last-modified:", 14) && !t->etag[0]) {
		snprintf(t->etag, sizeof t->etag, "%s", text + 14 + strspn(text + 14, " "));
	} else if (!strncasecmp(text, "content-range:", 14)) {
		const char *slash = strchr(text, '/');
		t->range_total = slash && slash[1] != '*' ? strtoll(slash + 1, NULL, 10) : -1;
	}
	return len;
}

/* Called with the first byte of an answer worth keeping: 206 goes on where PATH.part ends, 200 begins anew. */
static bool begin(struct transfer *t, long status)
{
	curl_off_t length = -1;
	t->begun = true;
	if (status == 200 && t->have > 0) {
		if (fseeko(t->f, 0, SEEK_SET) || ftruncate(fileno(t->f), 0)) {
			t->write_errno = errno;
			return false;
		}
		t->have = 0;
	}
	t->out->resumed_at = t->have;
	t->api->getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	t->total = length > 0 ? t->have + (int64_t)length : 0;
	if (t->etag[0] && strcmp(t->etag, t->old_tag) != 0)
		write_text(t->tag, t->etag, "", NULL); /* without it a resumed download is only less safe */
	return true;
}

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;
	size_t len = size * n;
	long status = 0;
	t->api->getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status != 200 && status != 206)
		return len; /* an error's page: not part of the file */
	if (!t->begun && !begin(t, status))
		return 0;
	if (fwrite(data, 1, len, t->f) != len) {
		t->write_errno = errno;
		return 0;
	}
	t->have += (int64_t)len;
	return len;
}

static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
	struct transfer *t = ctx;
	(void)total, (void)now, (void)up_total, (void)up_now;
	t->stopped = t->q->progress && t->q->progress(t->q->ctx, t->have, t->total);
	return t->stopped;
}

/* Sets up the request; the header list is the caller's to free. */
static int set_up(struct transfer *t, struct curl_slist **headers, struct err *e)
{
	CURL *c = t->curl;
	CURLcode bad = t->api->setopt(c, CURLOPT_URL, t->q->url);
#if LIBCURL_VERSION_NUM >= 0x075500
	bad |= t->api->setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	bad |= t->api->setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
	bad |= t->api->setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
	bad |= t->api->setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	bad |= t->api->setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
	bad |= t->api->setopt(c, CURLOPT_MAXREDIRS, 10L);
	bad |= t->api->setopt(c, CURLOPT_USERAGENT, "lockstep/" LOCKSTEP_VERSION);
	bad |= t->api->setopt(c, CURLOPT_NOSIGNAL, 1L);
	bad |= t->api->setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
	bad |= t->api->setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	bad |= t->api->setopt(c, CURLOPT_LOW_SPEED_TIME, IDLE_SECONDS);
	bad |= t->api->setopt(c, CURLOPT_ERRORBUFFER, t->message);
	bad |= t->api->setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	bad |= t->api->setopt(c, CURLOPT_HEADERDATA, t);
	bad |= t->api->setopt(c, CURLOPT_WRITEFUNCTION, on_data);
	bad |= t->api->setopt(c, CURLOPT_WRITEDATA, t);
	bad |= t->api->setopt(c, CURLOPT_NOPROGRESS, 0L);
	bad |= t->api->setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	bad |= t->api->setopt(c, CURLOPT_XFERINFODATA, t);
	if (t->have > 0) {
		char range[32], condition[300];
		snprintf(range, sizeof range, "%lld-", (long long)t->have);
		bad |= t->api->setopt(c, CURLOPT_RANGE, range);
		snprintf(condition, sizeof condition, "If-Range: %s", t->old_tag);
		if (t->old_tag[0] && !(*headers = t->api->slist_append(NULL, condition)))
			bad = CURLE_OUT_OF_MEMORY;
		bad |= t->api->setopt(c, CURLOPT_HTTPHEADER, *headers);
	}
	return bad == CURLE_OK ? ERR_NONE : err_set(e, ERR_IO, "%s: cannot be asked for (out of memory?)", t->q->url);
}

/* What went wrong, in words that say what to do. */
static int explain(const struct transfer *t, CURLcode code, long status, struct err *e)
{
	const char *url = t->q->url, *why = t->message[0] ? t->message : t->api->strerror(code);
	if (t->stopped)
		return err_set(e, ERR_INTERRUPTED, "stopped after %lld bytes; the same command goes on from there",
			       (long long)t->have);
	if (t->write_errno)
		return err_set(e, ERR_IO, "%s: cannot be written: %s", t->part, strerror(t->write_errno));
	if (code == CURLE_OK && status == 404)
		return err_set(e, ERR_IO,
			       "%s: the server has no such file (404); it may have moved: --url names another", url);
	if (code == CURLE_OK)
		return err_set(e, ERR_IO, "%s: the server answered %ld", url, status);
	if (t->have > 0)
		return err_set(e, ERR_IO, "%s: stopped after %lld bytes: %s; the same command goes on from there", url,
			       (long long)t->have, why);
	return err_set(e, ERR_IO, "%s: %s", url, why);
}

/* One request. *again: PATH.part does not fit what the server has; it has been emptied, ask once more. */
static int ask(struct transfer *t, bool *again, struct err *e)
{
	struct curl_slist *headers = NULL;
	long status = 0;
	int code = set_up(t, &headers, e);
	*again = false;
	if (code)
		goto out;
	CURLcode result = t->api->perform(t->curl);
	t->api->getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
	if (fflush(t->f))
		t->write_errno = errno;
	if (result == CURLE_OK && status == 416) {
		if (t->range_total == t->have) /* all of it was there already */
			t->out->resumed_at = t->have;
		else if (fseeko(t->f, 0, SEEK_SET) || ftruncate(fileno(t->f), 0))
			code = err_set(e, ERR_IO, "%s: %s", t->part, strerror(errno));
		else
			*again = true;
	} else if (result != CURLE_OK || (status != 200 && status != 206) || t->write_errno) {
		code = explain(t, result, status, e);
	} else if (!t->begun && !begin(t, status)) { /* an empty file */
		code = explain(t, result, status, e);
	}
out:
	t->api->slist_free_all(headers);
	return code;
}

static int download(struct transfer *t, struct err *e)
{
	bool again = true;
	int code = ERR_NONE;
	t->f = fopen(t->part, "ae");
	if (!t->f)
		return err_set(e, ERR_IO, "%s: cannot be written: %s", t->part, strerror(errno));
	for (int tries = 0; again && !code && tries < 2; tries++) {
		t->have = fseeko(t->f, 0, SEEK_END) ? 0 : ftello(t->f);
		t->begun = false;
		read_word(t->tag, t->old_tag, sizeof t->old_tag);
		if (!(t->curl = t->api->init()))
			code = err_no_memory(e, "download");
		else
			code = ask(t, &again, e);
		t->api->cleanup(t->curl);
	}
	if (!code && again)
		code = err_set(e, ERR_IO, "%s: the server refuses to send the file from its start", t->q->url);
	if (fclose(t->f) && !code)
		code = err_set(e, ERR_IO, "%s: cannot be written: %s", t->part, strerror(errno));
	if (code && t->have == 0)
		remove(t->part); /* nothing to go on from */
	return code;
}

/* The file at `path` against what was asked for, or else what is remembered of it. */
static int verify(struct transfer *t, const char *path, struct err *e)
{
	char old[80] = "";
	int code = digest(path, t->out->sha256, &t->out->bytes, e);
	if (code)
		return code;
	if (!t->q->sha256) {
		read_word(t->sum, old, sizeof old);
		old[strcspn(old, " ")] = '\0';
	}
	const char *want = t->q->sha256 ? t->q->sha256 : old;
	if (strlen(want) != 64)
		return ERR_NONE;
	if (strcasecmp(want, t->out->sha256) != 0)
		return err_set(e, ERR_IO, "%s: its SHA-256 is %s, but %s is %s%s%s", path, t->out->sha256,
			       t->q->sha256 ? "the expected one" : "the one remembered from last time", want,
			       path == t->part ? "; kept as " : " (--force fetches it again)",
			       path == t->part ? t->bad : "");
	t->out->checked = t->q->sha256 != NULL;
	t->out->remembered = !t->q->sha256;
	return ERR_NONE;
}

static int finish(struct transfer *t, struct err *e)
{
	int code = verify(t, t->part, e);
	if (code) {
		if (code == ERR_IO && t->out->bytes > 0) {
			rename(t->part, t->bad); /* so that the next attempt begins anew */
			remove(t->tag);
		}
		return code;
	}
	if (rename(t->part, t->q->path))
		return err_set(e, ERR_IO, "%s: cannot become %s: %s", t->part, t->q->path, strerror(errno));
	remove(t->tag);
	const char *name = strrchr(t->q->path, '/');
	char more[300];
	snprintf(more, sizeof more, "  %s", name ? name + 1 : t->q->path);
	return write_text(t->sum, t->out->sha256, more, e);
}

static int run(struct transfer *t, struct err *e)
{
	if (!t->part || !t->tag || !t->sum || !t->bad)
		return err_no_memory(e, "download");
	if (!t->q->force && size_of(t->q->path) >= 0) {
		t->out->existed = true;
		return verify(t, t->q->path, e);
	}
	if (t->q->force)
		remove(t->sum); /* fetched again on purpose: what was before does not bind */
	int code = download(t, e);
	return code ? code : finish(t, e);
}

int fetch_file(const struct fetch_request *q, struct fetch_result *out, struct err *e)
{
	struct curl_api api;
	struct transfer t = {.api = &api, .q = q, .out = out, .range_total = -1};
	memset(out, 0, sizeof *out);
	int code = curl_api_open(&api, e);
	if (code)
		return code;
	if (api.global_init(CURL_GLOBAL_DEFAULT))
		return err_set(e, ERR_IO, "the network library does not start");
	t.part = with_suffix(q->path, ".part");
	t.tag = with_suffix(q->path, ".part.tag");
	t.sum = with_suffix(q->path, ".sha256");
	t.bad = with_suffix(q->path, ".part.bad");
	code = run(&t, e);
	mem_free(t.part);
	mem_free(t.tag);
	mem_free(t.sum);
	mem_free(t.bad);
	api.global_cleanup();
	return code;
}
