/* SPDX-License-Identifier: Apache-2.0
 *
 * nvrtc_find.h: where an NVRTC library may lie, in the order that nvrtc.h
 * documents.
 */
#ifndef MLAGEN_NVRTC_FIND_H
#define MLAGEN_NVRTC_FIND_H

#include <stdbool.h>

/* Takes one candidate; true ends the search. */
typedef bool (*mlagen_candidate_fn)(void *user, const char *path);

/* Offers every candidate in order.  @return true once one was taken. */
bool mlagen_nvrtc_find(mlagen_candidate_fn take, void *user);

#endif
