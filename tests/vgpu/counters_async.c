/* SPDX-License-Identifier: Apache-2.0
 *
 * counters_async.c: wgmma, TMA and mbarrier counts (format in counters.h).
 */
#include "counters_async.h"
#include "wgmma.h"

#include <inttypes.h>

/* Shared memory of an SM serves 32 banks of 4 bytes in a cycle, whoever asks:
 * the floor for what wgmma and TMA read and write. */
#define PORT_BYTES 128 /* per cycle and SM */

/* Operations of one warp's quarter of m64nNkK, N = 8 * eighths: warps count
 * for themselves, and four of them make the instruction. */
static uint64_t flops_of(unsigned type, unsigned eighths)
{
    return UINT64_C(2) * 16 * 8 * eighths * vg_wgmma_type[type].k;
}

uint64_t vg_counters_wgmma_flops(const struct vg_async_counts *c)
{
    uint64_t sum = 0;

    for (unsigned t = 0; t < VG_WGMMA_TYPES; t++)
        for (unsigned n = 1; n <= 32; n++)
            sum += c->wgmma[t][n] * flops_of(t, n);
    return sum;
}

/* Only the shapes that were issued, in the order of types and N. */
static void put_wgmma(FILE *f, const struct vg_async_counts *c)
{
    const char *comma = "";

    fputs("\"wgmma\":{", f);
    for (unsigned t = 0; t < VG_WGMMA_TYPES; t++)
        for (unsigned n = 1; n <= 32; n++) {
            if (!c->wgmma[t][n])
                continue;
            fprintf(f, "%s\"m64n%uk%u.%s\":{\"count\":%" PRIu64
                    ",\"flops\":%" PRIu64 "}", comma, 8 * n,
                    vg_wgmma_type[t].k, vg_wgmma_type[t].name,
                    c->wgmma[t][n], c->wgmma[t][n] * flops_of(t, n));
            comma = ",";
        }
    fputs("},", f);
}

/* {"name": value, ...} */
struct item {
    const char *name;
    uint64_t value;
};

static void put_object(FILE *f, const char *name, const struct item *item,
                       size_t n, const char *after)
{
    fprintf(f, "\"%s\":{", name);
    for (size_t k = 0; k < n; k++)
        fprintf(f, "%s\"%s\":%" PRIu64, k ? "," : "", item[k].name,
                item[k].value);
    fprintf(f, "}%s", after);
}

/* An object of the given items: the names are in one place with the values,
 * and no member can be left without its comma. */
#define PUT(name, after, ...)                                                 \
    do {                                                                      \
        const struct item item[] = {__VA_ARGS__};                             \
        put_object(f, name, item, sizeof item / sizeof *item, after);         \
    } while (0)

/* mma_cycles_8 is in eighths of a cycle: a warp's part of n / 2 cycles per
 * warpgroup instruction stays a whole number. */
void vg_counters_put_async(FILE *f, const struct vg_async_counts *c)
{
    uint64_t port = c->port_a + c->port_b + c->port_tma_write +
                    c->port_tma_read;

    put_wgmma(f, c);
    fprintf(f, "\"mma_cycles\":%" PRIu64 ",", c->mma_cycles_8 / 8);
    PUT("smem_port", ",", {"wgmma_a", c->port_a}, {"wgmma_b", c->port_b},
        {"tma_write", c->port_tma_write}, {"tma_read", c->port_tma_read},
        {"cycles", port / PORT_BYTES});
    PUT("tma", ",", {"loads", c->loads}, {"multicasts", c->multicasts},
        {"load_bytes", c->load_bytes}, {"load_sectors", c->load_sectors},
        {"stores", c->stores}, {"store_bytes", c->store_bytes},
        {"store_sectors", c->store_sectors},
        {"st_async_bytes", c->st_async_bytes});
    PUT("mbarrier", ",", {"inits", c->mbar_inits},
        {"arrivals", c->mbar_arrivals}, {"waits", c->mbar_waits},
        {"polls", c->mbar_polls}, {"tx_bytes", c->tx_bytes});
    PUT("proxy_warnings", "", {"unfenced_copy", c->unfenced_copy},
        {"unfenced_reuse", c->unfenced_reuse});
}
