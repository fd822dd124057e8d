/* The order in which a run visits a dataset: an endless stream of epochs, each a permutation chosen by seed and epoch. */
#ifndef POCK_ORDER_H
#define POCK_ORDER_H

#include <stdint.h>

typedef struct {
    uint64_t samples, seed;
    int shuffle;
} pock_order;

/* Which sample is at `position` of the stream. A pure function: any position is reached without visiting others. */
uint64_t pock_order_at(const pock_order *order, uint64_t position);

#endif
