/* Tensor files (safetensors): weights, checkpoints, datasets and predictions are all in this format.
 * An 8-byte little-endian header length, a JSON header, then the tensors' bytes without gaps. */
#ifndef POCK_TENSOR_FILE_H
#define POCK_TENSOR_FILE_H

#include <stdint.h>

#include "error.h"
#include "files.h"
#include "pock.h"

#define POCK_MAX_RANK 16

typedef struct {
    const char *name;
    uint8_t dtype, rank;
    int64_t shape[POCK_MAX_RANK];
    uint64_t begin, nbytes; /* byte offset in the file */
} pock_stored;

/* An open file whose header has been verified. Start with all zero. */
typedef struct {
    int descriptor, open;
    const char *path;
    char *header, *metadata; /* metadata: the JSON text of `__metadata__`, or NULL */
    pock_stored *tensors;
    size_t count;
} pock_tensor_file;

int pock_tensor_file_open(pock_tensor_file *file, const char *path, pock_error *error);
void pock_tensor_file_close(pock_tensor_file *file);

/* The tensor called `name`, or NULL. */
const pock_stored *pock_tensor_file_find(const pock_tensor_file *file, const char *name);

/* A pock_name_at over a file's tensors. */
const char *pock_stored_at(const void *tensors, size_t index);

/* Text value of a metadata key copied into `value`; 1 when it is there and fits. */
int pock_tensor_file_metadata(const pock_tensor_file *file, const char *key, char *value, size_t bytes);

/* Refuses a tensor that has not the type and shape of `wanted`. */
int pock_tensor_file_fits(const pock_tensor_file *file, const pock_stored *stored, const pock_tensor *wanted,
                          pock_error *error);

/* Reads a whole tensor that fits `wanted` to `data`. */
int pock_tensor_file_read(const pock_tensor_file *file, const pock_stored *stored, const pock_tensor *wanted, void *data,
                          pock_error *error);

/* One tensor to write; `data` may be NULL when it is put later, in pieces. */
typedef struct {
    const char *name;
    uint8_t dtype, rank;
    const int64_t *shape;
    uint64_t nbytes;
    const void *data;
} pock_entry;

/* A file being written: header and given data at once, the rest by put, then commit. Start with all zero. */
typedef struct {
    pock_output output;
    uint64_t data_begin;
} pock_tensor_writer;

/* `metadata` is a JSON object of texts, or NULL. */
int pock_tensor_writer_open(pock_tensor_writer *writer, const char *path, const pock_entry *entries, size_t count,
                            const char *metadata, pock_error *error);
/* Writes at `offset` bytes after the start of the first tensor. */
int pock_tensor_writer_put(pock_tensor_writer *writer, uint64_t offset, const void *data, size_t bytes,
                           pock_error *error);
int pock_tensor_writer_commit(pock_tensor_writer *writer, pock_error *error);
void pock_tensor_writer_abandon(pock_tensor_writer *writer);

/* Opens, writes and commits; leaves nothing behind on failure. */
int pock_tensor_file_write(const char *path, const pock_entry *entries, size_t count, const char *metadata,
                           pock_error *error);

/* `f32` -> `F32`, as the format spells it, and the bytes of one element. */
const char *pock_dtype_name(uint8_t dtype);
size_t pock_dtype_bytes(uint8_t dtype);

/* `[8, 3, 224, 224]` for messages. */
typedef struct {
    char text[160];
} pock_shape_text;
pock_shape_text pock_show_shape(const int64_t *shape, size_t rank);

#endif
