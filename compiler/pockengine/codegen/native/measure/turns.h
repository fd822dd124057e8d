/* How candidates are measured: on untouched memory with a guard behind it, in turns, each time from cold caches. */
#ifndef POCK_TURNS_H
#define POCK_TURNS_H

#include "device.h"
#include "measure.h"
#include "threads.h"

/* Memory, threads and the device that candidates run on. `swept` bytes are what each thread sweeps over before a timed
 * run; `timed`: the device itself says how long kernels take. */
typedef struct {
    char *space[POCK_SPACES];
    size_t mapped[POCK_SPACES];
    pock_pool *pool;
    pock_model model; /* what the device knows of them: the inputs' bytes */
    pock_device *device;
    int timed;
    char *area;
    size_t swept;
} pock_ground;

double pock_now_ms(void);

/* Room for the inputs and the arena of any workload; threads are bound to cores. Start with all zero. */
int pock_ground_open(pock_ground *ground, uint64_t input_bytes, uint64_t arena_bytes, uint32_t threads, size_t swept,
                     pock_error *error);
void pock_ground_close(pock_ground *ground);

/* Runs a candidate once, on an arena of NaNs; `overrun` is 1 if it wrote behind the arena. */
int pock_compute(pock_ground *ground, const pock_workload *workload, const pock_program *candidate, char *overrun,
                 pock_error *error);

/* Times candidates in turn, each round beginning with another one, until `rounds` are over or, after a few, `budget_ms`;
 * `done` is the number of rounds. `ms` is [count][rounds]. */
int pock_time_in_turns(const pock_ground *ground, const pock_program *const *candidates, int count, long rounds,
                       double budget_ms, double *ms, long *done, pock_error *error);

#endif
