/* One run of the executable: what its entry points share. */
#ifndef POCK_JOB_H
#define POCK_JOB_H

#include "feed.h"
#include "json.h"
#include "memory.h"
#include "options.h"
#include "report.h"

/* Start with all zero. */
typedef struct {
    const pock_options *options;
    pock_machine machine;
    pock_dataset dataset, eval_data; /* the second: of evaluations during training */
    pock_split split;                /* of the dataset, where a share of it is held out */
    pock_batch ahead;                /* whose inputs were filled before their turn */
    pock_measured measured;
    pock_error error;
} pock_job;

/* The entry points; each returns an exit code, with the sentence in job->error. */
int pock_train(pock_job *job);
int pock_evaluate(pock_job *job);
int pock_predict_all(pock_job *job);
int pock_benchmark(pock_job *job);
int pock_generate(pock_job *job);

/* Refuses options that do not fit the model; before anything is opened. */
int pock_train_check(const pock_options *options, const pock_model *model, pock_error *error);

/* Runs one optimizer step, number `step` from 0, on its micro-batches: their mean loss, and the milliseconds of all. Without a
 * dataset the input block is used as it is. */
int pock_run_step(pock_job *job, const pock_stream *stream, uint64_t step, double *loss, double *ms);

/* Goes through a dataset once, its last samples included. The model must have the program eval. */
int pock_evaluate_dataset(pock_job *job, pock_dataset *dataset, pock_evaluation *evaluation);

/* `{"event": "eval", ...}` */
int pock_emit_evaluation(pock_job *job, const pock_evaluation *evaluation);

/* Writes the line of JSON to standard output and frees it. */
int pock_emit(pock_job *job, pock_json *json);

/* The line every run begins with. */
int pock_emit_start(pock_job *job, const pock_program *program, uint64_t steps, uint64_t first_step);

/* `{"event": "saved", ...}` */
int pock_emit_saved(pock_job *job, const char *path);

/* Runs a program once, profiled when the options say so; its milliseconds go to `*ms`. Meanwhile the batch `next` is made
 * ready, where the device allows it and this is not NULL. */
int pock_timed_run(pock_job *job, const pock_program *program, const pock_batch *next, double *ms);

/* The first element of a program's f32 output. */
double pock_scalar(const pock_machine *machine, const pock_program *program, const char *output);

#endif
