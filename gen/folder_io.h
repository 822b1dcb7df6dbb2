/* SPDX-License-Identifier: Apache-2.0
 *
 * folder_io.h: the small file-system steps that folder.c and publish.c share.
 */
#ifndef MLAGEN_FOLDER_IO_H
#define MLAGEN_FOLDER_IO_H

#include <limits.h>

#include "diag.h"

/* Adds "path: error: <doing>: <text of errno>" and returns MLAGEN_IO. */
enum mlagen_status mlagen_io_error(struct mlagen_diags *d, const char *path,
                                   const char *doing);

/* full = folder/path; MLAGEN_IO when that is too long for a path. */
enum mlagen_status mlagen_join(const char *folder, const char *path,
                               char full[PATH_MAX], struct mlagen_diags *d);

/* Creates a folder and the missing ones above it. */
enum mlagen_status mlagen_make_folder(const char *path,
                                      struct mlagen_diags *d);

#endif
