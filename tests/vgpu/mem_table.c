/* SPDX-License-Identifier: Apache-2.0
 *
 * mem_table.c: the opcode tables of the memory side.
 */
#include "mem_ops.h"

/* ldu and prefetchu (uniform across the warp) are hints about the address,
 * so the ordinary instructions serve them. */
const struct vg_opcode vg_ops_mem[] = {
    {"ld", vg_decode_ld, VG_C_LOAD, 0},
    {"ldu", vg_decode_ld, VG_C_LOAD, 0},
    {"st", vg_decode_st, VG_C_STORE, 0},
    {"atom", vg_decode_atom, VG_C_ATOMIC, 0},
    {"red", vg_decode_red, VG_C_ATOMIC, 0},
    {"prefetch", vg_decode_prefetch, VG_C_OTHER, 0},
    {"prefetchu", vg_decode_prefetch, VG_C_OTHER, 0},
    {"applypriority", vg_decode_applypriority, VG_C_OTHER, 0},
    {"discard", vg_decode_discard, VG_C_OTHER, 0},
    {"createpolicy", vg_decode_createpolicy, VG_C_OTHER, 0},
    {"ldmatrix", vg_decode_ldmatrix, VG_C_MATRIX, 0},
    {"stmatrix", vg_decode_stmatrix, VG_C_MATRIX, 0},
    {"movmatrix", vg_decode_movmatrix, VG_C_MATRIX, 0},
    {0},
};

/* Ampere's copies.  cp.async.bulk is longer, so its own row wins over the one
 * of cp.async (decode.c). */
const struct vg_opcode vg_ops_async[] = {
    {"cp.async", vg_decode_cp_async, VG_C_ASYNC, 0},
    {"cp.async.commit_group", vg_decode_cp_async_commit, VG_C_ASYNC, 0},
    {"cp.async.wait_group", vg_decode_cp_async_wait_group, VG_C_ASYNC, 0},
    {"cp.async.wait_all", vg_decode_cp_async_wait_all, VG_C_ASYNC, 0},
    {0},
};

const struct vg_opcode vg_ops_mma[] = {
    {"mma.sync", vg_decode_mma, VG_C_MMA, 0},
    {0},
};
