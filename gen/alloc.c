/* SPDX-License-Identifier: Apache-2.0
 *
 * alloc.c: see alloc.h.  Nothing clever: one function pointer, so that a test
 * can say "the 17th request fails" and mean all of gen/.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"

/* realloc(ptr, 0) means different things to different libraries; here it
 * always frees. */
static void *libc_realloc(void *user, void *ptr, size_t size) {
    (void)user;
    if (size == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, size);
}

static mlagen_realloc_fn door = libc_realloc;
static void *door_user;

/* Not locked: the header asks for a call before any other thread runs. */
void mlagen_set_allocator(mlagen_realloc_fn fn, void *user) {
    door = fn ? fn : libc_realloc;
    door_user = user;
}

void *mlagen_realloc(void *ptr, size_t size) {
    return door(door_user, ptr, size);
}

/* The product is checked before it is asked for, as calloc does. */
void *mlagen_calloc(size_t count, size_t size) {
    if (size && count > SIZE_MAX / size)
        return NULL;
    void *p = mlagen_realloc(NULL, count * size);
    if (p)
        memset(p, 0, count * size);
    return p;
}

/* Unlike strndup it copies `len` bytes whatever they are, NULs included. */
char *mlagen_strndup(const char *text, size_t len) {
    char *copy = mlagen_realloc(NULL, len + 1);
    if (copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

void mlagen_free(void *ptr) {
    if (ptr)
        mlagen_realloc(ptr, 0);
}

/* Doubles, from 8: the sum of all copies stays below twice the final size. */
void *mlagen_grow(void *array, size_t count, size_t *cap, size_t size) {
    if (count < *cap)
        return array;
    size_t more = *cap ? *cap * 2 : 8;
    if (more > SIZE_MAX / size)
        return NULL;
    void *grown = mlagen_realloc(array, more * size);
    if (grown)
        *cap = more;
    return grown;
}
