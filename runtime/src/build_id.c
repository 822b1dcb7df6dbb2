/* SPDX-License-Identifier: Apache-2.0
 *
 * build_id.c: what tells one build of a library from another.
 *
 * The linker writes a build id into a note of the ELF file; reading it takes
 * microseconds, where hashing NVRTC's hundred megabytes takes half a second.
 * A library without one is hashed whole.
 */
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

/* Bounds on what a file may claim: program headers, bytes of notes, bytes of
 * an id (20 where it is a SHA-1), and builtins libraries beside one NVRTC. */
enum { MAX_HEADERS = 64, MAX_NOTES = 4096, MAX_ID = 32, MAX_LIBRARIES = 8 };

static bool read_at(int fd, void *out, size_t bytes, uint64_t at)
{
    return pread(fd, out, bytes, (off_t)at) == (ssize_t)bytes;
}

/* Names and contents of notes are padded to 4 bytes (ELF specification). */
static size_t round4(size_t n)
{
    return (n + 3) / 4 * 4;
}

/* Looks for the build id among the notes of one segment.  Sizes are the
 * file's word and are checked one by one. */
static bool find_note(const unsigned char *notes, size_t bytes, char *id)
{
    Elf64_Nhdr note;
    size_t at = 0;

    while (at + sizeof(note) <= bytes) {
        memcpy(&note, notes + at, sizeof(note));
        at += sizeof(note);
        if (note.n_namesz > bytes || note.n_descsz > bytes ||
            at + round4(note.n_namesz) + note.n_descsz > bytes)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(notes + at, "GNU", 4) == 0 && note.n_descsz > 0 &&
            note.n_descsz <= MAX_ID) {
            mla__hex(notes + at + 4, note.n_descsz, id);
            return true;
        }
        at += round4(note.n_namesz) + round4(note.n_descsz);
    }
    return false;
}

/* The notes of the PT_NOTE segments, one after the other. */
static bool search_segments(int fd, const Elf64_Ehdr *e, char *id)
{
    Elf64_Phdr p;
    unsigned char notes[MAX_NOTES];

    for (int i = 0; i < e->e_phnum && i < MAX_HEADERS; i++) {
        if (!read_at(fd, &p, sizeof(p), e->e_phoff + sizeof(p) * (size_t)i))
            return false;
        if (p.p_type != PT_NOTE || p.p_filesz > sizeof(notes) ||
            !read_at(fd, notes, p.p_filesz, p.p_offset))
            continue;
        if (find_note(notes, p.p_filesz, id))
            return true;
    }
    return false;
}

/* Reads the file alone, which need not be loadable.  64-bit ELF only. */
bool mla__build_id(const char *path, char id[MLA__IDENTITY])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr e;
    bool good;

    *id = 0;
    if (fd < 0)
        return false;
    good = read_at(fd, &e, sizeof(e), 0) &&
           memcmp(e.e_ident, ELFMAG, SELFMAG) == 0 &&
           e.e_ident[EI_CLASS] == ELFCLASS64 &&
           (search_segments(fd, &e, id) || mla__sha256_file(fd, id));
    close(fd);
    return good;
}

/* NVRTC hands part of its work to the builtins library beside it, so both
 * count.  realpath first: libnvrtc.so is a chain of links, and the sibling
 * lies where it ends.  glob sorts, so the order of several builtins is the
 * same every time. */
bool mla__nvrtc_file_identity(const char *path, char out[MLA__IDENTITY])
{
    char real[PATH_MAX], pattern[PATH_MAX + 32];
    char id[MAX_LIBRARIES][MLA__IDENTITY];
    const char *texts[MAX_LIBRARIES] = {id[0]};
    size_t count = 1;
    glob_t hits;

    *out = 0;
    if (!realpath(path, real) || !mla__build_id(real, id[0]))
        return false;
    snprintf(pattern, sizeof(pattern), "%s/libnvrtc-builtins.so.[0-9]*",
             dirname(real));
    if (glob(pattern, 0, NULL, &hits) == 0) {
        for (size_t i = 0; i < hits.gl_pathc && count < MAX_LIBRARIES; i++)
            if (mla__build_id(hits.gl_pathv[i], id[count])) {
                texts[count] = id[count];
                count++;
            }
        globfree(&hits);
    }
    mla__sha256_texts(texts, count, out);
    return true;
}
