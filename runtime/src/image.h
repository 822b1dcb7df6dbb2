/* SPDX-License-Identifier: Apache-2.0
 *
 * image.h: a kernel as the driver takes it: machine code or PTX.
 *
 * Where an image comes from, in this order: the set's own cubin, the cache of
 * earlier compilations, NVRTC.  The second and third are told apart by a key
 * that covers everything the image depends on.
 */
#ifndef MLA_IMAGE_H
#define MLA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "mla.h"

enum mla__kind { MLA__CUBIN, MLA__PTX };

struct mla__image {
    char *data; /* NUL-terminated beyond its bytes; freed with mla__free */
    size_t bytes;
    enum mla__kind kind;
};

void mla__image_free(mla_context *ctx, struct mla__image *image);

/* The image without a compilation: the set's cubin, or the cache.  *found
 * says whether there is one; a cache that cannot be used has none. */
mla_status mla__image_find(mla_context *ctx, const mla_kernel *k,
                           enum mla__kind kind, struct mla__image *out,
                           bool *found);

/* Opens NVRTC, so that it is certain which one it is, and tidies the cache;
 * comes before compilations, on the context's own thread.
 * Error: NO_COMPILER. */
mla_status mla__image_begin(mla_context *ctx);

/* The image by a compilation, which is published in the cache.  Several
 * threads, and as far as the cache's file system can do it several processes,
 * that want the same one compile it once.
 * ctx may be another than the kernel's: its memory, errors and NVRTC serve.
 * Errors: COMPILE (with the log), IO, CORRUPT, OUT_OF_MEMORY. */
mla_status mla__image_compile(mla_context *ctx, const mla_kernel *k,
                              enum mla__kind kind, struct mla__image *out);

#endif
