#include "platform.h"

#include "job.h"

#define WARM_UP 3 /* steps before measuring: caches, branch predictors and clock frequency settle */

static int fill(pock_job *job, uint64_t step) {
    pock_order order = {job->dataset.samples, 0, 0};
    return job->options->data ? pock_dataset_fill(&job->dataset, &job->machine, &order,
                                                  step * job->machine.model->batch, UINT64_MAX, &job->error)
                              : POCK_OK;
}

static int measure(pock_job *job, const pock_program *program) {
    double ms = 0;
    int code = POCK_OK;
    for (uint64_t step = 0; step < WARM_UP + job->options->steps && !code; step++) {
        code = fill(job, step);
        if (code) {
            return code;
        }
        if (step == WARM_UP && job->options->profile) {
            code = pock_measured_profile(&job->measured, program, &job->error);
        }
        pock_timed_run(job, program, &ms);
        pock_measured_started(&job->measured);
        if (step >= WARM_UP && !code) {
            code = pock_measured_add(&job->measured, pock_scalar(&job->machine, program, "loss"), ms, &job->error);
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
