/* What the emitted tables and the measuring program agree on. */
#ifndef POCK_MEASURE_H
#define POCK_MEASURE_H

#include "pock.h"

/* Several ways to compute the same thing, as programs of their own. Inputs lie in the space POCK_INPUT; outputs and then
 * scratch memory in POCK_ARENA. */
typedef struct {
    const pock_program *const *candidates;
    uint32_t candidate_count;
    uint64_t input_bytes, output_bytes, arena_bytes;
} pock_workload;

/* Defined by the emitted tables. */
extern const pock_workload pock_workloads[];
extern const uint32_t pock_workload_count;

#endif
