/* One run of the executable: what its entry points share. */
#ifndef POCK_JOB_H
#define POCK_JOB_H

#include "batch.h"
#include "json.h"
#include "memory.h"
#include "options.h"
#include "report.h"

/* Start with all zero. */
typedef struct {
    const pock_options *options;
    pock_machine machine;
    pock_dataset dataset;
    pock_measured measured;
    pock_error error;
} pock_job;

/* The entry points; each returns an exit code, with the sentence in job->error. */
int pock_train(pock_job *job);
int pock_evaluate(pock_job *job);
int pock_predict_all(pock_job *job);
int pock_benchmark(pock_job *job);

/* Writes the line of JSON to standard output and frees it. */
int pock_emit(pock_job *job, pock_json *json);

/* The line every run begins with. */
int pock_emit_start(pock_job *job, const pock_program *program, uint64_t steps, uint64_t first_step);

/* `{"event": "saved", ...}` */
int pock_emit_saved(pock_job *job, const char *path);

/* Runs a program once, profiled when the options say so; its milliseconds go to `*ms`. */
void pock_timed_run(pock_job *job, const pock_program *program, double *ms);

/* The first element of a program's f32 output. */
double pock_scalar(const pock_machine *machine, const pock_program *program, const char *output);

#endif
