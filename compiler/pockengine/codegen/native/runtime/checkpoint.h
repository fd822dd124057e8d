/* Checkpoints: what a training run needs to go on as if it had never stopped. */
#ifndef POCK_CHECKPOINT_H
#define POCK_CHECKPOINT_H

#include "memory.h"

/* Where a run stands. `frozen` is a digest of the tensors that a checkpoint does not hold; `step_samples` and `last_batch`
 * say how the model takes the data. Steps count from 1; `evaluated` and `best_step` are 0 before the first evaluation,
 * `waited` is the number of evaluations since the best one. `eval_share` (0: none) and
 * `eval_seed` say which samples were held out. */
typedef struct {
    uint64_t step, seed, shuffle, samples, step_samples, last_batch, frozen;
    uint64_t evaluated, best_step, waited;
    double best_loss;
    double eval_share;
    uint64_t eval_seed;
} pock_position;

/* A digest of all parameters that training does not change. */
int pock_frozen_digest(const pock_machine *machine, uint64_t *value, pock_error *error);

/* Writes trained parameters, optimizer state and position, and the tensors of the file `best` (unless NULL); the old
 * checkpoint stays until the new one is on disk. */
int pock_checkpoint_save(const pock_machine *machine, const char *path, const pock_position *position, const char *best,
                         pock_error *error);

/* Restores tensors and `*position`. The run's own dataset, batch and frozen digest must agree with the checkpoint's. Unless
 * `best` is NULL, writes that file again, when the checkpoint has a best step. */
int pock_checkpoint_load(pock_machine *machine, const char *path, pock_position *position, const char *best,
                         pock_error *error);

#endif
