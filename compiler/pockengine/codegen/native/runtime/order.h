/* How a run visits a dataset: the order of an epoch, and which samples each step takes. */
#ifndef POCK_ORDER_H
#define POCK_ORDER_H

#include <stdint.h>

/* A number that looks random, another for each value. */
uint64_t pock_mix(uint64_t value);

/* An endless stream of epochs, each a permutation chosen by seed and epoch. */
typedef struct {
    uint64_t samples, seed;
    int shuffle;
} pock_order;

/* Which sample is at `position` of the stream. A pure function: any position is reached without visiting others. */
uint64_t pock_order_at(const pock_order *order, uint64_t position);

/* The way of a training run through its dataset. A step takes `micro_batches` times `batch` samples; `last_batch` is a
 * pock_last_batch. Steps and epochs count from 0. */
typedef struct {
    pock_order order;
    uint32_t batch, micro_batches;
    uint8_t last_batch;
} pock_stream;

/* One batch: it begins at `position` of the order, and rows after `last` are none. */
typedef struct {
    uint64_t position, last;
} pock_rows;

/* Samples of a step. */
uint64_t pock_stream_step_samples(const pock_stream *stream);

/* Whether the dataset is large enough for one step. */
int pock_stream_possible(const pock_stream *stream);

pock_rows pock_stream_rows(const pock_stream *stream, uint64_t step, uint32_t micro_batch);

/* The epoch in which a step begins. */
uint64_t pock_stream_epoch(const pock_stream *stream, uint64_t step);

/* Whether an epoch ends within this step. */
int pock_stream_ends_epoch(const pock_stream *stream, uint64_t step);

/* Steps until this many epochs are complete; 0 when they are too many to count. */
uint64_t pock_stream_steps(const pock_stream *stream, uint64_t epochs);

#endif
