/* The way of batches into the input block: when their turn comes, or ahead, while the run before is still on a device. */
#ifndef POCK_FEED_H
#define POCK_FEED_H

#include "batch.h"

/* Which samples of which dataset, in which order. */
typedef struct {
    pock_dataset *dataset;
    pock_order order;
    pock_rows rows;
} pock_batch;

/* Fills the input block of the next run, unless `ahead` is this batch and lies there. */
int pock_feed(pock_machine *machine, const pock_batch *ahead, const pock_batch *batch, pock_error *error);

/* Between begin and end of a run: fills the inputs of the next one, where the device has a place for them. What is wrong with
 * the batch is said when its turn comes. */
void pock_feed_ahead(pock_machine *machine, pock_batch *ahead, const pock_batch *batch);

#endif
