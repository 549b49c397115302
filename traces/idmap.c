#include "traces/idmap.h"

#include <stddef.h>
#include <string.h>

#include "core/err.h"
#include "core/mem.h"
#include "traces/reader.h"

void idmap_free(struct idmap *m)
{
	mem_free(m->slots);
	mem_free(m->entries);
	mem_free(m->text);
	*m = (struct idmap){0};
}

/* A slot tells most other texts apart by itself, so that looking one up seldom leaves the table. */
static uint64_t slot_of(uint64_t hash, int64_t number)
{
	return (hash >> 32 << 32) | (uint64_t)(number + 1);
}

static int64_t free_slot(const struct idmap *m, uint64_t hash)
{
	int64_t at = (int64_t)(hash & (uint64_t)(m->n_slots - 1));
	while (m->slots[at])
		at = (at + 1) & (m->n_slots - 1);
	return at;
}

/* Keeps the table at most half full. */
static int rehash(struct idmap *m, struct err *e)
{
	uint64_t *old = m->slots;
	int64_t n_slots = m->n_slots ? m->n_slots * 2 : 64;
	uint64_t *slots = mem_zalloc((size_t)n_slots, sizeof *slots);
	if (!slots)
		return err_no_memory(e, "ids");
	m->slots = slots;
	m->n_slots = n_slots;
	for (int64_t i = 0; i < m->n; i++)
		slots[free_slot(m, m->entries[i].hash)] = slot_of(m->entries[i].hash, i);
	mem_free(old);
	return ERR_NONE;
}

static int32_t find(const struct idmap *m, uint64_t hash, const char *s, int64_t len)
{
	if (!m->n_slots)
		return -1;
	int64_t at = (int64_t)(hash & (uint64_t)(m->n_slots - 1));
	for (; m->slots[at]; at = (at + 1) & (m->n_slots - 1)) {
		if (m->slots[at] >> 32 != hash >> 32)
			continue;
		int32_t number = (int32_t)(uint32_t)m->slots[at] - 1;
		const struct idmap_entry *x = &m->entries[number];
		if (x->hash == hash && !strncmp(m->text + x->at, s, (size_t)len) && !m->text[x->at + len])
			return number;
	}
	return -1;
}

int idmap_number(struct idmap *m, const char *s, int64_t len, int32_t *number, struct err *e)
{
	/* A NUL inside (JSON's \u0000) ends the text here, as it does everywhere else. */
	len = (int64_t)strnlen(s, (size_t)len);
	uint64_t hash = trace_text_id(s, (size_t)len);
	*number = find(m, hash, s, len);
	if (*number >= 0)
		return ERR_NONE;
	if ((m->n + 1) * 2 > m->n_slots && rehash(m, e))
		return ERR_MEMORY;
	if (mem_grow((void **)&m->entries, &m->cap, m->n + 1, sizeof *m->entries) ||
	    mem_grow((void **)&m->text, &m->cap_text, m->text_len + len + 1, 1))
		return err_no_memory(e, "ids");
	m->slots[free_slot(m, hash)] = slot_of(hash, m->n);
	m->entries[m->n] = (struct idmap_entry){hash, m->text_len};
	memcpy(m->text + m->text_len, s, (size_t)len);
	m->text[m->text_len + len] = '\0';
	m->text_len += len + 1;
	*number = (int32_t)m->n++;
	return ERR_NONE;
}

void idmap_prefetch(const struct idmap *m, const char *s, int64_t len)
{
	if (m->n_slots)
		__builtin_prefetch(&m->slots[trace_text_id(s, (size_t)len) & (uint64_t)(m->n_slots - 1)]);
}

const char *idmap_text(const struct idmap *m, int32_t number)
{
	return m->text + m->entries[number].at;
}
