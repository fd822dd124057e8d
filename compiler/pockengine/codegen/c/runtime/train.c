#include "platform.h"

#include <math.h>
#include <stdio.h>

#include "checkpoint.h"
#include "job.h"

static int emit_step(pock_job *job, uint64_t step, double loss, double ms) {
    pock_json json = {0};
    pock_json_open(&json, NULL, '{');
    pock_json_string(&json, "event", "step");
    pock_json_integer(&json, "step", step);
    pock_json_number(&json, "loss", loss);
    pock_json_number(&json, "ms", ms);
    pock_json_close(&json, '}');
    return pock_emit(job, &json);
}

/* Where the run begins: at zero or where the checkpoint stands, whose order then goes on. */
static int find_position(pock_job *job, pock_position *position) {
    const pock_options *options = job->options;
    int watched = options->resume || options->checkpoint;
    *position = (pock_position){.seed = options->seed,
                                .samples = job->dataset.samples,
                                .frozen = watched ? pock_frozen_digest(&job->machine) : 0,
                                .shuffle = !options->no_shuffle};
    if (!options->resume) {
        return POCK_OK;
    }
    int code = pock_checkpoint_load(&job->machine, options->resume, position, &job->error);
    if (!code && ((options->seed_given && options->seed != position->seed) || (options->no_shuffle && position->shuffle))) {
        code = pock_fail(&job->error, POCK_USAGE, "%s was made with another order of samples; leave --seed and --no-shuffle out",
                         options->resume);
    }
    return code;
}

static int one_step(pock_job *job, const pock_program *program, pock_position *position) {
    pock_order order = {position->samples, position->seed, position->shuffle};
    double ms = 0;
    int code = pock_dataset_fill(&job->dataset, &job->machine, &order, position->step * job->machine.model->batch,
                                 UINT64_MAX, &job->error);
    if (code) {
        return code;
    }
    pock_timed_run(job, program, &ms);
    double loss = pock_scalar(&job->machine, program, "loss");
    position->step++;
    if (!isfinite(loss)) {
        return pock_fail(&job->error, POCK_DIVERGED, "training diverged: the loss is %s at step %llu; lower the learning rate",
                         isnan(loss) ? "not a number" : "infinite", (unsigned long long)position->step);
    }
    code = pock_measured_add(&job->measured, loss, ms, &job->error);
    return code ? code : emit_step(job, position->step, loss, ms);
}

static int is_due(const pock_options *options, uint64_t step) {
    return options->checkpoint && (step % options->checkpoint_every == 0 || step == options->steps);
}

static int all_steps(pock_job *job, const pock_program *program, pock_position *position) {
    const pock_options *options = job->options;
    int code = pock_emit_start(job, program, options->steps, position->step);
    while (!code && position->step < options->steps) {
        code = one_step(job, program, position);
        if (!code && is_due(options, position->step)) {
            code = pock_checkpoint_save(&job->machine, options->checkpoint, position, &job->error);
            code = code ? code : pock_emit_saved(job, options->checkpoint);
        }
    }
    return code;
}

/* Finds out before the first step whether the last one can be kept. */
static int check_outputs(pock_job *job) {
    const pock_options *options = job->options;
    int code = options->save ? pock_output_possible(options->save, &job->error) : POCK_OK;
    return code || !options->checkpoint ? code : pock_output_possible(options->checkpoint, &job->error);
}

int pock_train(pock_job *job) {
    const pock_program *program = job->machine.model->train;
    pock_position position;
    if (!program) {
        return pock_fail(&job->error, POCK_USAGE, "this model was compiled without a training step");
    }
    int code = check_outputs(job);
    code = code ? code : find_position(job, &position);
    if (!code && job->options->profile) {
        code = pock_measured_profile(&job->measured, program, &job->error);
    }
    code = code ? code : all_steps(job, program, &position);
    if (!code && job->options->save) {
        code = pock_machine_save(&job->machine, job->options->save, &job->error);
        code = code ? code : pock_emit_saved(job, job->options->save);
    }
    return code;
}
