/* SPDX-License-Identifier: Apache-2.0
 *
 * hopper_table.c: the opcodes of sm_90's asynchronous instructions.
 */
#include "bulk_ops.h"

/* The longest name that matches wins, so the order does not matter; arg tells
 * instructions apart that share a decoder. */
const struct vg_opcode vg_ops_hopper[] = {
    {"mbarrier", vg_decode_mbarrier, VG_C_SYNC, 0},
    {"cp.async.mbarrier.arrive", vg_decode_cp_async_mbarrier, VG_C_ASYNC, 0},
    {"cp.async.bulk", vg_decode_bulk, VG_C_ASYNC, 0},
    {"cp.async.bulk.tensor", vg_decode_bulk_tensor, VG_C_ASYNC, 0},
    {"cp.reduce.async.bulk", vg_decode_bulk_reduce, VG_C_ASYNC, 0},
    {"cp.async.bulk.prefetch", vg_decode_bulk_prefetch, VG_C_OTHER, 0},
    {"cp.async.bulk.commit_group", vg_decode_bulk_commit, VG_C_ASYNC, 0},
    {"cp.async.bulk.wait_group", vg_decode_bulk_wait, VG_C_ASYNC, 0},
    {"st.async", vg_decode_st_async, VG_C_ASYNC, 0},
    {"mapa", vg_decode_mapa, VG_C_INT, 0},
    {"getctarank", vg_decode_mapa, VG_C_INT, 1},
    {"wgmma.mma_async", vg_decode_wgmma, VG_C_MMA, 0},
    {"wgmma.fence", vg_decode_wgmma_sync, VG_C_SYNC, 0},
    {"wgmma.commit_group", vg_decode_wgmma_sync, VG_C_SYNC, 1},
    {"wgmma.wait_group", vg_decode_wgmma_sync, VG_C_SYNC, 2},
    {"griddepcontrol", vg_decode_griddep, VG_C_OTHER, 0},
    {"setmaxnreg", vg_decode_setmaxnreg, VG_C_OTHER, 0},
    {NULL, NULL, 0, 0},
};
