/* store.c: opening and closing the database, and what its errors mean to a user. */
#include "analysis/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/store_internal.h"
#include "analysis/store_outline.h"
#include "core/mem.h"

#define BUSY_MS 60000

struct explanation {
	int sqlite_code;
	enum err_code code;
	const char *text; /* NULL: SQLite's own */
};

static const struct explanation explanations[] = {
	{SQLITE_FULL, ERR_IO, "the disk is full"},
	{SQLITE_BUSY, ERR_IO, "another process has been writing to it for a minute; try again when it is done"},
	{SQLITE_READONLY, ERR_IO, "it is read-only; choose another file with --db"},
	{SQLITE_NOTADB, ERR_INPUT, "the file is not an SQLite database; choose another with --db"},
	{SQLITE_CORRUPT, ERR_IO, "the database is damaged; keep a copy and choose another file with --db"},
	{SQLITE_NOMEM, ERR_MEMORY, "out of memory"},
	{SQLITE_CANTOPEN, ERR_IO, NULL},
};

int store_fail(struct store *s, struct err *e, const char *what)
{
	int code = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
	code = code == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : code & 0xff;
	s->failed_with = code;
	const char *text = s->db ? sqlite3_errmsg(s->db) : "out of memory";
	enum err_code kind = ERR_IO;
	for (size_t i = 0; i < sizeof explanations / sizeof *explanations; i++) {
		if (explanations[i].sqlite_code != code)
			continue;
		kind = explanations[i].code;
		text = explanations[i].text ? explanations[i].text : text;
	}
	int sys = s->db ? sqlite3_system_errno(s->db) : 0;
	if ((code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && sys)
		return err_set(e, kind, "%s: %s: %s (%s)", s->path, what, text, strerror(sys));
	return err_set(e, kind, "%s: %s: %s", s->path, what, text);
}

int store_exec(struct store *s, const char *sql, const char *what, struct err *e)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? ERR_NONE : store_fail(s, e, what);
}

int store_prepare(struct store *s, sqlite3_stmt **q, const char *sql, const char *what, struct err *e)
{
	return sqlite3_prepare_v2(s->db, sql, -1, q, NULL) == SQLITE_OK ? ERR_NONE : store_fail(s, e, what);
}

const char *store_path(const struct store *s)
{
	return s->path;
}

/* SQLite opens lazily; this makes it look at the file. */
static bool can_be_read(struct store *s)
{
	return s->db && sqlite3_exec(s->db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) == SQLITE_OK;
}

static void open_flags(struct store *s, const char *name, int flags)
{
	sqlite3_close(s->db);
	s->db = NULL;
	sqlite3_open_v2(name, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
	if (s->db)
		sqlite3_busy_timeout(s->db, BUSY_MS);
}

/* A WAL database in a folder that may not be written cannot get its shared-memory file. Nobody else can be writing to
 * it there, so that it may be read as it is. */
static int open_immutable(struct store *s, struct err *e)
{
	size_t size = 3 * strlen(s->path) + 32;
	char *uri = mem_alloc(size);
	if (!uri)
		return err_no_memory(e, "opening the database");
	char *to = uri + sprintf(uri, "file:");
	for (const char *c = s->path; *c; c++)
		to += sprintf(to, strchr("%?# ", *c) ? "%%%02X" : "%c", (unsigned char)*c);
	strcpy(to, "?immutable=1");
	open_flags(s, uri, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
	mem_free(uri);
	return ERR_NONE;
}

static int open_to_read(struct store *s, struct err *e)
{
	if (access(s->path, F_OK) != 0)
		return err_set(e, ERR_INPUT, "%s: %s; `lockstep replay --db %s` makes a database", s->path,
			       strerror(errno), s->path);
	/* SQLite makes that read-only where it has to. Opened so, it also tidies its -wal and -shm files away. */
	open_flags(s, s->path, SQLITE_OPEN_READWRITE);
	if (!can_be_read(s)) {
		int code = s->db ? sqlite3_errcode(s->db) : SQLITE_NOMEM;
		if (code == SQLITE_CANTOPEN || code == SQLITE_READONLY)
			if (open_immutable(s, e))
				return ERR_MEMORY;
		if (!can_be_read(s))
			return store_fail(s, e, "opening the database");
	}
	bool empty;
	int rc = store_check_version(s, &empty, e);
	if (rc == ERR_NONE && empty)
		return err_set(e, ERR_INPUT, "%s: there are no runs in this database yet", s->path);
	return rc ? rc : store_exec(s, "PRAGMA query_only = 1", "opening the database", e);
}

static int open_to_write(struct store *s, struct err *e)
{
	open_flags(s, s->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
	if (!can_be_read(s))
		return store_fail(s, e, "opening the database");
	/* Before anything is written: is it one of ours? */
	bool empty;
	int rc = store_check_version(s, &empty, e);
	if (rc == ERR_NONE && sqlite3_db_readonly(s->db, "main"))
		return err_set(e, ERR_IO, "%s: it is read-only; choose another file with --db", s->path);
	/* Bigger pages take whole-row appends better. Without effect on a database that has pages already. */
	if (rc == ERR_NONE)
		rc = store_exec(s, "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL",
				"opening the database", e);
	if (rc == ERR_NONE)
		rc = store_migrate(s, e);
	return rc ? rc : store_register_rows(s, e);
}

static int64_t clock_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Others may be opening, making or leaving the database at this moment. SQLite waits for most locks by itself, but not
 * where two that hold the file could wait for each other: turning a new file's journal into a log is such a place, and
 * the one who is late is told SQLITE_BUSY at once. It then holds nothing and may start anew. */
static int open_patiently(struct store *s, bool read_only, struct err *e)
{
	int64_t deadline = clock_ms() + BUSY_MS;
	for (int pause_ms = 1;; pause_ms = pause_ms < 50 ? 2 * pause_ms : 100) {
		struct err own = {0};
		s->failed_with = SQLITE_OK;
		int rc = read_only ? open_to_read(s, &own) : open_to_write(s, &own);
		if (rc == ERR_NONE)
			return ERR_NONE;
		bool raced = s->failed_with == SQLITE_BUSY || s->failed_with == SQLITE_PROTOCOL;
		if (!raced || clock_ms() >= deadline)
			return err_set(e, own.code, "%s", own.text);
		sqlite3_sleep(pause_ms);
	}
}

int store_open(struct store **out, const char *path, bool read_only, struct err *e)
{
	*out = NULL;
	struct store *s = mem_zalloc(1, sizeof *s);
	if (!s || !(s->path = mem_strdup(path))) {
		mem_free(s);
		return err_no_memory(e, "opening the database");
	}
	s->outline_from = STEP_OUTLINE_FROM;
	int rc = open_patiently(s, read_only, e);
	if (rc) {
		store_close(s);
		return rc;
	}
	*out = s;
	return ERR_NONE;
}

void store_close(struct store *s)
{
	if (!s)
		return;
	sqlite3_close(s->db);
	mem_free(s->steps);
	store_outline_forget(s);
	mem_free(s->path);
	mem_free(s);
}
