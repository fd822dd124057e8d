/* A training run: where it stands, and the evaluations on its way. */
#ifndef POCK_TRAINING_H
#define POCK_TRAINING_H

#include "checkpoint.h"
#include "job.h"

typedef struct {
    pock_job *job;
    pock_stream stream;
    pock_position position;
    uint64_t steps; /* the run ends after this many, counted from the very beginning */
    char *best;     /* the file of the best weights so far; NULL when they are not kept */
} pock_training;

/* The epoch, from 1, of the last step done. */
uint64_t pock_training_epoch(const pock_training *training);

/* Whether an evaluation belongs after the last step done. */
int pock_validation_due(const pock_training *training);

/* Evaluates the present weights, tells the result, and keeps the weights when they are the best so far. */
int pock_validate(pock_training *training);

/* Whether the loss has not improved for as many evaluations as the options allow. */
int pock_validation_stops(const pock_training *training);

#endif
