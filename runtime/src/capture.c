/* SPDX-License-Identifier: Apache-2.0
 *
 * capture.c: what a stream that is being captured into a graph allows.
 *
 * Launches are recorded; loading code, allocating and waiting would break the
 * capture, and the driver says so only when it ends.  So the runtime asks
 * first and names the call that should have come before.
 */
#include "internal.h"

/* Asking for the default stream beside a capture in another one is an error
 * of its own (CUDA Driver API, cuStreamIsCapturing). */
int mla__capturing(const struct mla__driver *d, void *stream, bool *out)
{
    int status = 0;
    int result = d->stream_capturing(stream, &status);

    *out = result == MLA__CUDA_CAPTURE_IMPLICIT || (!result && status);
    return *out ? MLA__CUDA_SUCCESS : result;
}

mla_status mla__ready(mla_kernel *k, void *stream)
{
    mla_context *ctx = k->owner->ctx;
    bool capturing = false;
    mla_status status;
    int result;

    if (k->function)
        return MLA_OK;
    status = mla__enter(ctx);
    if (status)
        return status;
    result = mla__capturing(&ctx->driver, stream, &capturing);
    mla__leave(ctx);
    if (result)
        return mla__cuda_fail(ctx, "cuStreamIsCapturing", result);
    if (!capturing)
        return mla_prepare(k);
    return mla__fail(ctx, MLA_CAPTURING,
                     "%s: is not on the device, and nothing can be loaded "
                     "while the stream is being captured; call mla_prepare "
                     "before",
                     k->symbol);
}
