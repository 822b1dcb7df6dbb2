/* SPDX-License-Identifier: Apache-2.0
 *
 * rope_table.c: emitted cos/sin tables against angles worked by hand.
 *
 * DeepSeek-V3: base 10,000, 32 pairs, yarn with factor 40 over 4,096 positions,
 * beta 32 and 1.  The ramp runs from pair floor(64 ln(4096 / (2 pi 32)) /
 * (2 ln 10000)) = floor(10.47) = 10 to ceil(64 ln(4096 / (2 pi)) / (2 ln
 * 10000)) = ceil(22.5) = 23.  So pair 4 keeps 10000^(-8/64) = 10^-0.5, pair 24
 * has 10000^(-48/64) / 40 = 10^-3 / 40, and pair 16, 6/13 up the ramp, has
 * 0.01 (7/13 + 6/13 / 40) = 0.0055.  mscale = mscale_all_dim: magnitude 1.
 *
 * Kimi-K2: beta 1 and 1, base 50,000, factor 32: the ramp is one pair wide,
 * from floor(64 ln(4096 / 2 pi) / (2 ln 50000)) = floor(19.16) = 19 to 20.
 *
 * GLM-4.7-Flash: base 10^6, no scaling: pair 16 of 32 turns 10^-3 per position.
 *
 * MiniCPM3's longrope factors are not in its spec: refused with -2.
 */
#include <math.h>
#include <stdio.h>

#include "deepseek-v2-lite/deepseek-v2-lite.h"
#include "deepseek-v3/deepseek-v3.h"
#include "glm-4.7-flash/glm-4.7-flash.h"
#include "kimi-k2/kimi-k2.h"
#include "minicpm3-4b/minicpm3-4b.h"

enum { PAIRS = 32 };

static int failures;

static void check(const char *what, double got, double want) {
    if (fabs(got - want) <= 6e-8)
        return;
    printf("%s: %.9g, expected %.9g\n", what, got, want);
    failures++;
}

static void check_status(const char *what, int got, int want) {
    if (got == want)
        return;
    printf("%s: %d, expected %d\n", what, got, want);
    failures++;
}

/* The pair turns by `angle` per position in a table that starts at `first`. */
static void check_pair(const char *what, const float *table, long long first,
                       int pair, double angle) {
    int row;
    for (row = 0; row < 3; row++) {
        const double a = (double)(first + row) * angle;
        check(what, table[row * 2 * PAIRS + pair], cos(a));
        check(what, table[row * 2 * PAIRS + PAIRS + pair], sin(a));
    }
}

int main(void) {
    float t[3 * 2 * PAIRS];
    const long long far = 163837;

    check_status("v3", mla_deepseek_v3_rope_table(t, 3, 0, 0), 0);
    check_pair("v3 pair 4", t, 0, 4, sqrt(0.1));
    check_pair("v3 pair 16", t, 0, 16, 0.0055);
    check_pair("v3 pair 24", t, 0, 24, 1e-3 / 40);
    check_status("v3", mla_deepseek_v3_rope_table(t, 3, far, 1), 0);
    check_pair("v3 far, pair 0", t, far, 0, 1);
    check_pair("v3 far, pair 16", t, far, 16, 0.0055);

    /* mscale = mscale_all_dim = 0.707: their ratio is 1 as well. */
    check_status("lite", mla_deepseek_v2_lite_rope_table(t, 3, 0, 0), 0);
    check_pair("lite pair 16", t, 0, 16, 0.0055);

    check_status("k2", mla_kimi_k2_rope_table(t, 3, 0, 0), 0);
    check_pair("k2 pair 19", t, 0, 19, pow(50000, -19.0 / 32));
    check_pair("k2 pair 20", t, 0, 20, pow(50000, -20.0 / 32) / 32);

    check_status("glm", mla_glm_4_7_flash_rope_table(t, 3, 0, 0), 0);
    check_pair("glm pair 16", t, 0, 16, 1e-3);

    check_status("longrope without factors",
                 mla_minicpm3_4b_rope_table(t, 3, 0, 0), -2);
    check_status("no table", mla_deepseek_v3_rope_table(0, 3, 0, 0), -1);
    check_status("rows below 0", mla_deepseek_v3_rope_table(t, -1, 0, 0), -1);
    check_status("first below 0", mla_deepseek_v3_rope_table(t, 1, -1, 0), -1);
    return failures != 0;
}
