/* Measurements of a run, and the report they become. */
#ifndef POCK_REPORT_H
#define POCK_REPORT_H

#include "json.h"
#include "memory.h"
#include "split.h"

/* Milliseconds on a clock that never goes back. */
double pock_now(void);

/* Highest resident memory of this process so far, in bytes; 0 where the system does not tell. */
uint64_t pock_peak_rss(void);

#define PROFILED_STEPS 64 /* of which a call's median time is taken: the last ones */

/* One pass over a dataset. `accuracy` and `perplexity` are negative where they mean nothing. Of an evaluation during
 * training, `step` and `epoch` (from 1) say when it was, and `best` that no earlier loss was as low; otherwise they are 0. */
typedef struct {
    uint64_t samples, step, epoch;
    double loss, accuracy, perplexity;
    int best;
} pock_evaluation;

/* What a run measured: milliseconds and loss of each step, evaluations. `samples` is 0 unless a dataset was gone through
 * once. Start with all zero. */
typedef struct {
    double started, cold_start_ms;
    double *ms;
    double *loss;
    size_t steps, losses, capacity;
    uint64_t samples;
    pock_evaluation *evaluations;
    size_t evaluation_count, evaluation_capacity;
    uint64_t best_step; /* 0: none */
    double best_loss;
    int stopped_early;
    uint64_t norm_batches;   /* from which running statistics were estimated */
    const char *ended;       /* what ended a training: steps, epochs or patience */
    const pock_split *split; /* of the dataset; NULL when none is held out */
    int warmed_up; /* the first step is like the others */
    double *call_ms; /* [call of the profiled program][PROFILED_STEPS], of the last steps; NULL without --profile */
    const pock_program *profiled;
    double mark;
} pock_measured;

/* Ends the cold start, the first time it is called. */
void pock_measured_started(pock_measured *measured);

/* Adds a step. */
int pock_measured_add(pock_measured *measured, double loss, double ms, pock_error *error);
int pock_measured_evaluation(pock_measured *measured, const pock_evaluation *evaluation, pock_error *error);
int pock_measured_profile(pock_measured *measured, const pock_program *program, pock_error *error);
void pock_measured_free(pock_measured *measured);

/* A pock_observer whose context is the pock_measured: charges the time since `mark` to a call. */
void pock_measured_observe(void *measured, uint32_t call);

/* Takes the times of all calls of the run that just ended from the device, where it has them. */
void pock_measured_from_device(pock_measured *measured, const pock_machine *machine);

/* The report's JSON object; sorts a copy of the samples. */
void pock_report_write(pock_json *json, const char *key, const char *entry, const pock_machine *machine,
                       const pock_measured *measured);

/* Keys of an evaluation in an event or report. */
void pock_evaluation_write(pock_json *json, const pock_evaluation *evaluation);

/* The key `held_out`, of a split that was made. */
void pock_split_write(pock_json *json, const pock_split *split);

/* The object `model info` prints. */
void pock_info_write(pock_json *json, const pock_model *model);

#endif
