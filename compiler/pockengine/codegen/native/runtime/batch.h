/* Batches: what may be in them, and their way into the input block. */
#ifndef POCK_BATCH_H
#define POCK_BATCH_H

#include "error.h"
#include "memory.h"
#include "order.h"
#include "split.h"
#include "tensor_file.h"

#define POCK_MAX_INPUTS 32

/* Refuses NaN, negative weights, and integers outside 0..limit-1 where the input states a limit (but the ignored one). `where` names the source in messages and
 * `sample` is the number of the first sample in `data`; `per_sample` elements belong to each. */
int pock_check_values(const pock_tensor *input, const void *data, size_t count, size_t per_sample, const char *where,
                      uint64_t sample, pock_error *error);

/* Converts `count` elements where nothing is lost: any integer or whole float to an integer type, integers to f32.
 * Returns the index of the first element that would change, or `count`. */
size_t pock_convert(void *to, uint8_t to_dtype, const void *from, uint8_t from_dtype, size_t count);

/* Whether the type is one of whole numbers, bool included. */
int pock_is_integer(uint8_t dtype);

/* Element `index` of an array of integers. */
int64_t pock_integer_at(const void *data, uint8_t dtype, size_t index);

/* Whether pock_convert knows the pair of types (equal types need no conversion). */
int pock_convertible(uint8_t to_dtype, uint8_t from_dtype);

/* An open dataset that fits the model. Start with all zero. */
typedef struct {
    const pock_model *model;
    pock_tensor_file file;
    uint64_t samples; /* of the part, where there is a split */
    const pock_split *split;
    int held;
    const pock_stored *inputs[POCK_MAX_INPUTS]; /* as the model's; NULL for targets not needed, weights not given */
    void *scratch;                              /* one sample before conversion */
} pock_dataset;

/* Checks names, types, shapes and all integer targets. `labelled` says whether targets are needed. */
int pock_dataset_open(pock_dataset *dataset, const pock_model *model, const char *path, int labelled, pock_error *error);
void pock_dataset_close(pock_dataset *dataset);

/* Divides an open dataset: by class, where a target has one whole number for each sample. */
int pock_dataset_split(const pock_dataset *dataset, double share, uint64_t seed, pock_split *split, pock_error *error);

/* Restricts an open dataset to a part of itself; the split has to outlive it. */
void pock_dataset_take(pock_dataset *dataset, const pock_split *split, int held);

/* Fills the input block with one batch; rows past the last repeat it, with a weight of 0 where the model takes weights. */
int pock_dataset_fill(pock_dataset *dataset, const pock_machine *machine, const pock_order *order, pock_rows rows,
                      pock_error *error);

/* Fills the input block with made-up values within each input's limits, the same in every run. */
void pock_fill_synthetic(const pock_machine *machine);

#endif
