/* Files: exact reads, and output that appears whole or not at all. */
#ifndef POCK_FILES_H
#define POCK_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

/* Opens for reading; only regular files. Sets `*descriptor` and `*bytes`. */
int pock_file_open(const char *path, int *descriptor, uint64_t *bytes, pock_error *error);

/* Reads exactly `bytes` at `offset`; fewer is an error that names `path`. */
int pock_file_read(int descriptor, const char *path, void *data, size_t bytes, uint64_t offset, pock_error *error);

/* A file being written beside its final place (`PATH.tmp`), synced and renamed by commit. Start with all zero. */
typedef struct {
    int descriptor;
    char *path, *temporary;
} pock_output;

int pock_output_open(pock_output *output, const char *path, pock_error *error);
int pock_output_write(pock_output *output, const void *data, size_t bytes, uint64_t offset, pock_error *error);
int pock_output_commit(pock_output *output, pock_error *error);
/* Removes what was written; does nothing after a commit. */
void pock_output_abandon(pock_output *output);

/* Whether a file could be put at `path`: found out before hours of work, not after. */
int pock_output_possible(const char *path, pock_error *error);

/* Writes everything to a descriptor that may take it in pieces; 0, or -1 with errno set. */
int pock_write_all(int descriptor, const char *data, size_t bytes);

#endif
