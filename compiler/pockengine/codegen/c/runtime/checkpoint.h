/* Checkpoints: what a training run needs to go on as if it had never stopped. */
#ifndef POCK_CHECKPOINT_H
#define POCK_CHECKPOINT_H

#include "memory.h"

/* Where a run stands. `frozen` is a digest of the tensors that a checkpoint does not hold. */
typedef struct {
    uint64_t step, seed, samples, frozen;
    int shuffle;
} pock_position;

/* A digest of all parameters that training does not change. */
uint64_t pock_frozen_digest(const pock_machine *machine);

/* Writes trained parameters, optimizer state and position; the old checkpoint stays until the new one is on disk. */
int pock_checkpoint_save(const pock_machine *machine, const char *path, const pock_position *position,
                         pock_error *error);

/* Restores tensors and `*position`. The run's own samples and frozen digest must agree with the checkpoint's. */
int pock_checkpoint_load(pock_machine *machine, const char *path, pock_position *position, pock_error *error);

#endif
