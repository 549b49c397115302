/* prefix.h: prefix caches: what a paged pool knows of contents, who may share them and what goes first.
 *
 *                     hash (vLLM)                         radix (SGLang)
 *   known             each full block by itself           a tree: a page and all before it
 *   when              at allocation or at commit          once computed: prompts chunk by chunk, generated tokens at the end
 *   equal contents    stay, the oldest is found           the later one is given back
 *   evicted           block by block, least recently      unlocked leaves, whole nodes, least recently used
 *                     freed first (a table's last first)
 *
 * One engine speaks to both through core/memory.c; a pool (core/kv_pool.h) is made for one of them. */
#ifndef CORE_PREFIX_H
#define CORE_PREFIX_H

enum prefix_cache { PREFIX_OFF, PREFIX_HASH, PREFIX_RADIX };

extern const char *const prefix_cache_names[]; /* "off", "hash", "radix", NULL */

#endif
