#include "platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "tensor_file.h"

#define LONGEST_HEADER ((uint64_t)100 << 20) /* the format's own limit */
#define DEEPEST 8

static const struct {
    const char *name;
    uint8_t bytes;
} DTYPES[] = {
    [POCK_F32] = {"F32", 4}, [POCK_F64] = {"F64", 8}, [POCK_F16] = {"F16", 2}, [POCK_BF16] = {"BF16", 2},
    [POCK_I8] = {"I8", 1},   [POCK_U8] = {"U8", 1},   [POCK_I32] = {"I32", 4}, [POCK_I64] = {"I64", 8},
    [POCK_BOOL] = {"BOOL", 1}, [POCK_I16] = {"I16", 2}, [POCK_U16] = {"U16", 2}, [POCK_U32] = {"U32", 4}, [POCK_U64] = {"U64", 8},
};

const char *pock_dtype_name(uint8_t dtype) {
    return DTYPES[dtype].name;
}

size_t pock_dtype_bytes(uint8_t dtype) {
    return DTYPES[dtype].bytes;
}

pock_shape_text pock_show_shape(const int64_t *shape, size_t rank) {
    pock_shape_text shown = {"["};
    size_t used = 1;
    for (size_t axis = 0; axis < rank && used < sizeof shown.text - 24; axis++) {
        used += (size_t)snprintf(shown.text + used, sizeof shown.text - used, "%s%lld", axis ? ", " : "",
                                 (long long)shape[axis]);
    }
    snprintf(shown.text + used, sizeof shown.text - used, "]");
    return shown;
}

static int malformed(const pock_tensor_file *file, const char *what, pock_error *error) {
    return pock_fail(error, POCK_BAD_DATA, "%s is not a valid safetensors file: %s", file->path, what);
}

static int scan_dtype(pock_scan *scan, pock_stored *stored) {
    char *name = NULL;
    if (!pock_scan_string(scan, &name)) {
        return 0;
    }
    for (uint8_t dtype = 0; dtype < sizeof DTYPES / sizeof *DTYPES; dtype++) {
        if (strcmp(name, DTYPES[dtype].name) == 0) {
            stored->dtype = dtype;
            return 1;
        }
    }
    return 0;
}

static int scan_shape(pock_scan *scan, pock_stored *stored) {
    uint64_t dimension = 0;
    if (!pock_scan_is(scan, '[')) {
        return 0;
    }
    if (pock_scan_is(scan, ']')) {
        return 1;
    }
    do {
        if (stored->rank == POCK_MAX_RANK || !pock_scan_integer(scan, &dimension) || dimension > INT64_MAX) {
            return 0;
        }
        stored->shape[stored->rank++] = (int64_t)dimension;
    } while (pock_scan_is(scan, ','));
    return pock_scan_is(scan, ']');
}

static int scan_offsets(pock_scan *scan, pock_stored *stored) {
    uint64_t end = 0;
    if (!(pock_scan_is(scan, '[') && pock_scan_integer(scan, &stored->begin) && pock_scan_is(scan, ',') &&
          pock_scan_integer(scan, &end) && pock_scan_is(scan, ']') && end >= stored->begin)) {
        return 0;
    }
    stored->nbytes = end - stored->begin;
    return 1;
}

/* `{"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}`, each key exactly once. */
static int scan_tensor(pock_scan *scan, pock_stored *stored) {
    int dtype = 0;
    int shape = 0;
    int offsets = 0;
    char *key = NULL;
    if (!pock_scan_is(scan, '{')) {
        return 0;
    }
    do {
        if (!pock_scan_string(scan, &key) || !pock_scan_is(scan, ':')) {
            return 0;
        }
        if (strcmp(key, "dtype") == 0 && !dtype) {
            dtype = scan_dtype(scan, stored);
        } else if (strcmp(key, "shape") == 0 && !shape) {
            shape = scan_shape(scan, stored);
        } else if (strcmp(key, "data_offsets") == 0 && !offsets) {
            offsets = scan_offsets(scan, stored);
        } else {
            return 0;
        }
    } while (pock_scan_is(scan, ','));
    return pock_scan_is(scan, '}') && dtype && shape && offsets;
}

/* Whether the bytes promised are those of the shape. */
static int has_right_size(const pock_stored *stored) {
    uint64_t bytes = DTYPES[stored->dtype].bytes;
    for (size_t axis = 0; axis < stored->rank; axis++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)stored->shape[axis], &bytes)) {
            return 0;
        }
    }
    return bytes == stored->nbytes;
}

static int grow(pock_tensor_file *file, size_t *capacity, pock_error *error) {
    if (file->count < *capacity) {
        return POCK_OK;
    }
    *capacity = *capacity ? *capacity * 2 : 16;
    pock_stored *grown = realloc(file->tensors, *capacity * sizeof *grown);
    if (!grown) {
        return pock_fail(error, POCK_MEMORY, "out of memory reading the header of %s", file->path);
    }
    file->tensors = grown;
    return POCK_OK;
}

static int scan_entry(pock_tensor_file *file, pock_scan *scan, const char *name, pock_error *error) {
    char what[200];
    pock_stored stored = {.name = name};
    if (!scan_tensor(scan, &stored)) {
        snprintf(what, sizeof what, "the header's entry for '%.100s' is malformed or has an unknown dtype", name);
        return malformed(file, what, error);
    }
    if (!has_right_size(&stored)) {
        snprintf(what, sizeof what, "the bytes of '%.100s' do not fit its shape", name);
        return malformed(file, what, error);
    }
    if (pock_tensor_file_find(file, name)) {
        snprintf(what, sizeof what, "'%.100s' occurs twice", name);
        return malformed(file, what, error);
    }
    file->tensors[file->count++] = stored;
    return POCK_OK;
}

/* The text is kept as it is for pock_tensor_file_metadata: the scanner overwrites what it reads, so it is copied first. */
static int keep_metadata(pock_tensor_file *file, pock_scan *scan, pock_error *error) {
    size_t left = (size_t)(scan->end - scan->at);
    char *copy = malloc(left + 1);
    if (!copy) {
        return pock_fail(error, POCK_MEMORY, "out of memory reading the header of %s", file->path);
    }
    memcpy(copy, scan->at, left);
    char *start = scan->at;
    if (file->metadata || !pock_scan_skip(scan, DEEPEST)) {
        free(copy);
        return malformed(file, "its metadata is malformed", error);
    }
    copy[scan->at - start] = 0;
    file->metadata = copy;
    return POCK_OK;
}

static int scan_header(pock_tensor_file *file, uint64_t bytes, pock_error *error) {
    pock_scan scan = {file->header, file->header + bytes};
    char *name = NULL;
    size_t capacity = 0;
    int code = POCK_OK;
    if (!pock_scan_is(&scan, '{')) {
        return malformed(file, "its header is not a JSON object", error);
    }
    if (!pock_scan_is(&scan, '}')) {
        do {
            if (!pock_scan_string(&scan, &name) || !pock_scan_is(&scan, ':')) {
                return malformed(file, "its header is not valid JSON", error);
            }
            if (strcmp(name, "__metadata__") == 0) {
                code = keep_metadata(file, &scan, error);
            } else {
                code = grow(file, &capacity, error);
                code = code ? code : scan_entry(file, &scan, name, error);
            }
            if (code) {
                return code;
            }
        } while (pock_scan_is(&scan, ','));
        if (!pock_scan_is(&scan, '}')) {
            return malformed(file, "its header is not valid JSON", error);
        }
    }
    return pock_scan_finished(&scan) ? POCK_OK : malformed(file, "there is text after its header", error);
}

static int by_offset(const void *left, const void *right) {
    const pock_stored *a = left;
    const pock_stored *b = right;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    return (a->nbytes > b->nbytes) - (a->nbytes < b->nbytes);
}

/* The tensors must fill the rest of the file without gap or overlap; afterwards `begin` counts from the file's start. */
static int place_tensors(pock_tensor_file *file, uint64_t data_begin, uint64_t file_bytes, pock_error *error) {
    uint64_t at = 0;
    if (file->count) {
        qsort(file->tensors, file->count, sizeof *file->tensors, by_offset);
    }
    for (size_t i = 0; i < file->count; i++) {
        if (file->tensors[i].begin != at) {
            return malformed(file, "its tensors overlap or leave gaps", error);
        }
        if (__builtin_add_overflow(at, file->tensors[i].nbytes, &at)) {
            return malformed(file, "its tensors are impossibly large", error);
        }
        file->tensors[i].begin += data_begin;
    }
    if (at > file_bytes - data_begin) {
        return pock_fail(error, POCK_BAD_DATA, "%s is truncated: its header promises %llu bytes, the file has %llu",
                         file->path, (unsigned long long)(at + data_begin), (unsigned long long)file_bytes);
    }
    return at < file_bytes - data_begin ? malformed(file, "there are bytes after its last tensor", error) : POCK_OK;
}

static int read_header(pock_tensor_file *file, uint64_t file_bytes, pock_error *error) {
    uint64_t bytes = 0;
    int code = POCK_OK;
    if (file_bytes < 8) {
        return pock_fail(error, POCK_BAD_DATA, "%s is truncated: a safetensors file has at least 8 bytes", file->path);
    }
    code = pock_file_read(file->descriptor, file->path, &bytes, 8, 0, error);
    if (code) {
        return code;
    }
    if (bytes > LONGEST_HEADER) {
        return malformed(file, "its header is impossibly long", error);
    }
    if (bytes > file_bytes - 8) {
        return pock_fail(error, POCK_BAD_DATA, "%s is truncated: its header has %llu bytes, the file has %llu",
                         file->path, (unsigned long long)bytes, (unsigned long long)file_bytes);
    }
    file->header = malloc((size_t)bytes + 1);
    if (!file->header) {
        return pock_fail(error, POCK_MEMORY, "out of memory reading the header of %s", file->path);
    }
    code = pock_file_read(file->descriptor, file->path, file->header, (size_t)bytes, 8, error);
    code = code ? code : scan_header(file, bytes, error);
    return code ? code : place_tensors(file, 8 + bytes, file_bytes, error);
}

int pock_tensor_file_open(pock_tensor_file *file, const char *path, pock_error *error) {
    uint64_t bytes = 0;
    file->path = path;
    int code = pock_file_open(path, &file->descriptor, &bytes, error);
    if (code) {
        return code;
    }
    file->open = 1;
    code = read_header(file, bytes, error);
    if (code) {
        pock_tensor_file_close(file);
    }
    return code;
}

void pock_tensor_file_close(pock_tensor_file *file) {
    if (file->open) {
        close(file->descriptor);
    }
    free(file->header);
    free(file->metadata);
    free(file->tensors);
    memset(file, 0, sizeof *file);
}

const pock_stored *pock_tensor_file_find(const pock_tensor_file *file, const char *name) {
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

const char *pock_stored_at(const void *tensors, size_t index) {
    return ((const pock_stored *)tensors)[index].name;
}

int pock_tensor_file_metadata(const pock_tensor_file *file, const char *key, char *value, size_t bytes) {
    char *copy = file->metadata ? strdup(file->metadata) : NULL;
    char *name = NULL;
    char *text = NULL;
    int found = 0;
    if (!copy) {
        return 0;
    }
    pock_scan scan = {copy, copy + strlen(copy)};
    if (pock_scan_is(&scan, '{')) {
        do {
            if (!pock_scan_string(&scan, &name) || !pock_scan_is(&scan, ':') || !pock_scan_string(&scan, &text)) {
                break;
            }
            found = strcmp(name, key) == 0;
        } while (!found && pock_scan_is(&scan, ','));
    }
    found = found && (size_t)snprintf(value, bytes, "%s", text) < bytes;
    free(copy);
    return found;
}

int pock_tensor_file_fits(const pock_tensor_file *file, const pock_stored *stored, const pock_tensor *wanted,
                          pock_error *error) {
    if (stored->dtype != wanted->dtype) {
        return pock_fail(error, POCK_BAD_DATA, "'%s' in %s is %s, the model needs %s", stored->name, file->path,
                         pock_dtype_name(stored->dtype), pock_dtype_name(wanted->dtype));
    }
    if (stored->rank != wanted->rank || memcmp(stored->shape, wanted->shape, wanted->rank * sizeof(int64_t)) != 0) {
        return pock_fail(error, POCK_BAD_DATA, "'%s' in %s has shape %s, the model needs %s", stored->name, file->path,
                         pock_show_shape(stored->shape, stored->rank).text,
                         pock_show_shape(wanted->shape, wanted->rank).text);
    }
    return POCK_OK;
}

int pock_tensor_file_read(const pock_tensor_file *file, const pock_stored *stored, const pock_tensor *wanted, void *data,
                          pock_error *error) {
    int code = pock_tensor_file_fits(file, stored, wanted, error);
    return code ? code
                : pock_file_read(file->descriptor, file->path, data, (size_t)stored->nbytes, stored->begin, error);
}
