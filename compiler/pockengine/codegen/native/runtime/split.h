/* Which samples of a dataset are held out for evaluation. */
#ifndef POCK_SPLIT_H
#define POCK_SPLIT_H

#include <stdint.h>

#include "error.h"

/* The two parts of a dataset. Memory: a bit and an eighth for each sample. Start with all zero. */
typedef struct {
    double share;
    uint64_t seed;
    uint64_t samples, held;
    uint64_t classes; /* that have a sample; 0 when the parts were drawn without regard to class */
    uint64_t *bits;   /* 1: held out */
    uint64_t *before; /* samples held out before each block of bits */
} pock_split;

/* Where the classes come from: gives the class, below `limit`, of a sample. */
typedef struct {
    int (*class_at)(const void *context, uint64_t sample, uint64_t *found, pock_error *error);
    const void *context;
    uint64_t limit; /* 1: all samples are alike, and `class_at` is not called */
} pock_classes;

/* Draws `share` of each class, the same for the same seed and classes, and leaves at least one sample of each to train on. */
int pock_split_make(pock_split *split, uint64_t samples, double share, uint64_t seed, const pock_classes *classes,
                    pock_error *error);
void pock_split_free(pock_split *split);

/* Samples of a part: of what is held out, or of the rest. */
uint64_t pock_split_samples(const pock_split *split, int held);

/* The number in the whole dataset of a part's sample `index`. */
uint64_t pock_split_at(const pock_split *split, int held, uint64_t index);

#endif
