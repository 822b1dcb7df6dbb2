/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc.h: the one door through which the generator asks for memory.
 *
 * Everything that gen/ allocates itself, and everything Lua allocates on its
 * behalf, comes through mlagen_realloc.  Tests put their own function behind
 * the door and fail the n-th request, for every n, so that each out-of-memory
 * path is run and not merely believed in.
 */
#ifndef MLAGEN_ALLOC_H
#define MLAGEN_ALLOC_H

#include <stddef.h>

/* Like realloc: `ptr` NULL allocates, `size` 0 frees and returns NULL. */
typedef void *(*mlagen_realloc_fn)(void *user, void *ptr, size_t size);

/* Puts `fn` behind the door; NULL puts libc's realloc back.  Memory must be
 * freed under the function that gave it.  Process-wide: call it before any
 * other thread uses the library. */
void mlagen_set_allocator(mlagen_realloc_fn fn, void *user);

/* @return NULL when there is no memory (or when size is 0: freed). */
void *mlagen_realloc(void *ptr, size_t size);
void *mlagen_calloc(size_t count, size_t size); /* overflow-checked */
char *mlagen_strndup(const char *text, size_t len);
void mlagen_free(void *ptr);

/* Makes room for one more element of `size` bytes behind a growing array.
 * @return the array, moved perhaps and *cap raised, or NULL with the old array
 *         and *cap untouched. */
void *mlagen_grow(void *array, size_t count, size_t *cap, size_t size);

#endif
