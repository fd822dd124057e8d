/* How the hosted runtime reports failure: an exit code and one plain sentence. */
#ifndef POCK_ERROR_H
#define POCK_ERROR_H

#include <stddef.h>

/* Exit codes of the executable and results of the library's functions. */
enum pock_code {
    POCK_OK = 0,
    POCK_FAILED = 1,
    POCK_USAGE = 2,    /* command line or arguments */
    POCK_BAD_DATA = 3, /* dataset, weights or checkpoint file */
    POCK_IO = 4,       /* disk full, not readable */
    POCK_MEMORY = 5,
    POCK_DIVERGED = 6, /* the loss is not finite */
    POCK_PAUSED = 7    /* a signal asked for it; the checkpoint has all so far */
};

typedef struct {
    int code;
    char text[640];
} pock_error;

/* Records the failure and returns its code. */
int pock_fail(pock_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The name of candidate `index`. */
typedef const char *(*pock_name_at)(const void *context, size_t index);

/* ` (did you mean 'x'?)` or ` (known: a, b)`, for a name that is none of `count` candidates; empty when there are none. */
typedef struct {
    char text[256];
} pock_hint;
pock_hint pock_nearest(const char *name, pock_name_at name_at, const void *context, size_t count);

/* A pock_name_at over an array of strings. */
const char *pock_string_at(const void *strings, size_t index);

/* A pock_name_at over an array of pock_tensor. */
const char *pock_tensor_at(const void *tensors, size_t index);

#endif
