/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_stage.c: pinned images of a step's tables, each on its way at most
 * once.
 *
 * A copy reads the host's memory when it runs, so an image is not touched
 * again before the event behind its copy has passed (docs/pool.md, "Steps").
 */
#include "layer.h"

/* Images are made when they are first needed, of the size that is needed. */
mla_status mla__layer_stages_make(mla_layer *l)
{
    l->stage = mla__alloc(l->ctx,
                          (size_t)l->options.stages * sizeof(*l->stage));
    return l->stage ? MLA_OK
                    : mla__fail(l->ctx, MLA_OUT_OF_MEMORY, "stages of a layer");
}

/* Waits until no copy reads the image. */
static int settle(const struct mla__driver *d, struct mla__layer_stage *s)
{
    int result = s->in_flight ? d->event_wait(s->event) : 0;

    if (!result)
        s->in_flight = false;
    return result;
}

static void free_stage(const struct mla__driver *d, struct mla__layer_stage *s)
{
    settle(d, s);
    if (s->event)
        d->event_destroy(s->event);
    if (s->image)
        d->host_free(s->image);
}

void mla__layer_stages_free(mla_layer *l)
{
    const struct mla__driver *d = &l->ctx->driver;

    if (l->stage && mla__enter(l->ctx) == MLA_OK) {
        for (int i = 0; i < l->options.stages; i++)
            free_stage(d, &l->stage[i]);
        mla__leave(l->ctx);
    }
    mla__free(l->ctx, l->stage);
}

/* An image of at least so many bytes. */
static int grow(const struct mla__driver *d, struct mla__layer_stage *s,
                size_t bytes)
{
    size_t room = 4096;
    void *block = NULL;
    int result = s->event ? 0 : d->event_create(&s->event,
                                                MLA__EVENT_NO_TIMING);

    if (result || bytes <= s->bytes)
        return result;
    while (room < bytes)
        room *= 2;
    if (s->image)
        d->host_free(s->image);
    s->image = NULL;
    s->bytes = 0;
    result = d->host_alloc(&block, room, 0);
    if (!result) {
        s->image = block;
        s->bytes = room;
    }
    return result;
}

mla_status mla__layer_stage_take(mla_layer *l, size_t bytes, char **image)
{
    const struct mla__driver *d = &l->ctx->driver;
    struct mla__layer_stage *s = &l->stage[l->next_stage];
    mla_status status = mla__enter(l->ctx);
    int result;

    if (status)
        return status;
    result = settle(d, s);
    if (!result)
        result = grow(d, s, bytes);
    mla__leave(l->ctx);
    *image = s->image;
    return result ? mla__cuda_fail(l->ctx, "a layer's stage", result) : MLA_OK;
}

/* The stage is used up even where the copy failed: the next step
 * takes another. */
mla_status mla__layer_stage_send(mla_layer *l, uint64_t to, size_t bytes,
                                 void *stream)
{
    const struct mla__driver *d = &l->ctx->driver;
    struct mla__layer_stage *s = &l->stage[l->next_stage];
    mla_status status = mla__enter(l->ctx);
    int result;

    if (status)
        return status;
    result = d->mem_write_async(to, s->image, bytes, stream);
    if (!result) {
        result = d->event_record(s->event, stream);
        if (result) /* without its event the image is safe only after this */
            d->ctx_synchronize();
        s->in_flight = !result;
    }
    mla__leave(l->ctx);
    l->next_stage = (l->next_stage + 1) % l->options.stages;
    return result ? mla__cuda_fail(l->ctx, "cuMemcpyHtoDAsync", result)
                  : MLA_OK;
}
