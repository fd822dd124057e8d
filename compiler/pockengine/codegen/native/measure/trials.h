/* What the emitted tables of a pack of trials and its program agree on, beside measure.h. */
#ifndef POCK_TRIALS_H
#define POCK_TRIALS_H

#include "measure.h"

/* Types of elements that are read as numbers. */
enum pock_element {
    POCK_AS_F32, POCK_AS_F64, POCK_AS_F16, POCK_AS_BF16, POCK_AS_I8, POCK_AS_U8, POCK_AS_I32, POCK_AS_I64, POCK_AS_BIT
};

/* An operand: element i is values[pick(seed + i, choices)], of `bytes` each; of bits `bytes` is 0. */
typedef struct {
    uint64_t offset, count;
    const void *values;
    uint32_t choices, bytes, seed;
} pock_operand;

/* A result: which of its elements are compared, with which numbers. All `checked` elements in order where those are all,
 * else element pick(seed + i, count). An element is right if it is near one of its `alternatives`, of which the numbers
 * lie one behind the other from `first` on; `slack` is added to what may be off. Elements that are no floats are equal. */
typedef struct {
    uint64_t offset, count, first;
    double slack;
    uint32_t checked, alternatives, seed;
    uint8_t element;
} pock_result;

/* A workload with its operands and results. */
typedef struct {
    const pock_workload *workload;
    const pock_operand *operands;
    const pock_result *results;
    uint32_t operand_count, result_count;
} pock_trial;

/* Defined by the emitted tables: the trials, how many numbers they are compared with, the error allowed of a number itself,
 * bytes swept before each run, milliseconds for each workload, the target and its threads. */
extern const pock_trial pock_trials[];
extern const uint32_t pock_trial_count;
extern const uint64_t pock_wanted_count, pock_swept_bytes;
extern const double pock_relative, pock_budget_ms;
extern const char *const pock_target;
extern const uint32_t pock_most_threads;

#endif
