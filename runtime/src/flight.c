/* SPDX-License-Identifier: Apache-2.0
 *
 * flight.c: one compilation per key and process.
 *
 * The list of compilations under way is the library's only state outside a
 * context: two contexts that want the same kernel at the same time share the
 * work, not the memory.  A flight lives on the stack of the thread that flies
 * it, which leaves only when everyone who waited has a copy.
 */
#include <pthread.h>
#include <string.h>

#include "cache.h"

/* key, error and image are the flying thread's, good until its flight lands. */
struct flight {
    const char *key;
    struct flight *next;
    bool done;
    int waiting;
    mla_status status;
    const char *error;
    const struct mla__image *image;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct flight *flights;

/* The threads that flew do not exist in the child. */
static void forget_flights(void)
{
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    flights = NULL;
}

/* Once per process, at the first flight. */
static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_flights);
}

/* The flight of that key, or NULL.  The mutex is held. */
static struct flight *find(const char *key)
{
    struct flight *f = flights;
    while (f && strcmp(f->key, key))
        f = f->next;
    return f;
}

/* The flight of that key, counted as waited for; or NULL and `mine` is it. */
static struct flight *join(struct flight *mine)
{
    struct flight *other;

    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&mutex);
    other = find(mine->key);
    if (other) {
        other->waiting++;
    } else {
        mine->next = flights;
        flights = mine;
    }
    while (other && !other->done)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    return other;
}

/* Not there if the process was forked meanwhile: a child's list
 * begins empty. */
static void unlink_flight(struct flight *mine)
{
    struct flight **at = &flights;
    while (*at && *at != mine)
        at = &(*at)->next;
    if (*at)
        *at = mine->next;
}

/* Shows the result, and waits until those who wait for it have copied it.
 * No one joins any more: the flight has left the list. */
static void land(struct flight *mine)
{
    pthread_mutex_lock(&mutex);
    unlink_flight(mine);
    mine->done = true;
    pthread_cond_broadcast(&changed);
    while (mine->waiting)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

/* The other's image, in memory of one's own, or the other's error. */
static mla_status copy(mla_context *ctx, const struct flight *other,
                       struct mla__image *out)
{
    if (other->status == MLA_COMPILE)
        return mla__fail(ctx, other->status, "%s", other->error);
    if (other->status)
        return other->status;
    *out = *other->image;
    out->data = mla__alloc(ctx, out->bytes + 1);
    if (!out->data)
        return mla__fail(ctx, MLA_OUT_OF_MEMORY, "image");
    memcpy(out->data, other->image->data, out->bytes);
    return MLA_OK;
}

/* Done with another's flight; its thread waits for the last who leaves. */
static void leave(struct flight *other)
{
    pthread_mutex_lock(&mutex);
    other->waiting--;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

/* What went wrong for another context for reasons of its own (its memory, its
 * search for a compiler) is tried again for this one. */
mla_status mla__flight(mla_context *ctx, const char *key, mla__make_fn make,
                       void *user, struct mla__image *out)
{
    for (;;) {
        struct flight mine = {.key = key};
        struct flight *other = join(&mine);
        mla_status status;

        if (!other) {
            mine.status = make(ctx, user, out);
            mine.error = mla_last_error(ctx);
            mine.image = out;
            land(&mine);
            return mine.status;
        }
        status = copy(ctx, other, out);
        leave(other);
        if (!status || status == MLA_COMPILE)
            return status;
    }
}
