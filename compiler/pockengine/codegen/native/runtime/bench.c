#include "platform.h"

#include "job.h"

#define WARM_UP 3 /* steps before measuring: caches, branch predictors and clock frequency settle */

/* A training step, or one prediction where there is none. */
static int run_once(pock_job *job, const pock_stream *stream, uint64_t step, double *loss, double *ms) {
    const pock_model *model = job->machine.model;
    if (model->train) {
        return pock_run_step(job, stream, step, loss, ms);
    }
    pock_batch batch = {&job->dataset, stream->order, pock_stream_rows(stream, step, 0)};
    int code = job->options->data ? pock_feed(&job->machine, &job->ahead, &batch, &job->error) : POCK_OK;
    return code ? code : pock_timed_run(job, model->predict, NULL, ms);
}

static int measure(pock_job *job, const pock_program *program) {
    const pock_model *model = job->machine.model;
    pock_stream stream = {{job->dataset.samples, 0, 0}, model->batch, pock_micro_batches(model), POCK_WRAP};
    double loss = 0;
    double ms = 0;
    int code = POCK_OK;
    for (uint64_t step = 0; step < WARM_UP + job->options->steps && !code; step++) {
        if (step == WARM_UP && job->options->profile) {
            code = pock_measured_profile(&job->measured, program, &job->error);
        }
        code = code ? code : run_once(job, &stream, step, &loss, &ms);
        pock_measured_started(&job->measured);
        if (step >= WARM_UP && !code) {
            code = pock_measured_add(&job->measured, loss, ms, &job->error);
        }
    }
    return code;
}

int pock_benchmark(pock_job *job) {
    const pock_model *model = job->machine.model;
    const pock_program *program = model->train ? model->train : model->predict;
    if (!program) {
        return pock_fail(&job->error, POCK_USAGE, "this model was compiled without anything to measure");
    }
    if (!job->options->data) {
        pock_fill_synthetic(&job->machine);
    }
    job->measured.warmed_up = 1;
    int code = pock_emit_start(job, program, job->options->steps, 0);
    code = code ? code : measure(job, program);
    if (!model->train) {
        job->measured.losses = 0;
    }
    return code;
}
