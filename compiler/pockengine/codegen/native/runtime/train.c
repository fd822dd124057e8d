#include "platform.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "norms.h"
#include "training.h"

#define BEST_SUFFIX ".best"

/* Whether SIGTERM has come: a run that writes checkpoints then ends with one, after the step that it is at. */
static volatile sig_atomic_t asked_to_pause;

static void ask_to_pause(int number) {
    (void)number;
    asked_to_pause = 1;
}

/* Without a checkpoint the signal ends the process at once, as ever: nothing could be kept. */
static void watch_for_pause(const pock_options *options) {
    struct sigaction action = {.sa_handler = ask_to_pause, .sa_flags = SA_RESTART};
    if (options->checkpoint) {
        sigemptyset(&action.sa_mask);
        sigaction(SIGTERM, &action, NULL);
    }
}

/* The state that random numbers are made from, or NULL: a model without dropout has none. */
static const pock_tensor *find_generator(const pock_model *model) {
    for (uint32_t i = 0; i < model->state_count; i++) {
        if (strcmp(model->states[i].name, "generator") == 0 && model->states[i].dtype == POCK_I64) {
            return &model->states[i];
        }
    }
    return NULL;
}

int pock_train_check(const pock_options *options, const pock_model *model, pock_error *error) {
    if (!model->train) {
        return pock_fail(error, POCK_USAGE, "this model was compiled without a training step");
    }
    if (options->eval_data && !model->eval) {
        return pock_fail(error, POCK_USAGE, "this model was compiled without an evaluation; leave %s out",
                         options->eval_share > 0 ? "--eval-share" : "--eval-data");
    }
    if (options->seed_given && options->no_shuffle && !find_generator(model)) {
        return pock_fail(error, POCK_USAGE, "--seed and --no-shuffle exclude each other: this model draws no random numbers");
    }
    return POCK_OK;
}

static int emit_step(const pock_training *training, double loss, double ms) {
    pock_json json = {0};
    pock_json_open(&json, NULL, '{');
    pock_json_string(&json, "event", "step");
    pock_json_integer(&json, "step", training->position.step);
    pock_json_integer(&json, "epoch", pock_training_epoch(training));
    pock_json_number(&json, "loss", loss);
    pock_json_number(&json, "ms", ms);
    pock_json_close(&json, '}');
    return pock_emit(training->job, &json);
}

static int emit_stopped(const pock_training *training) {
    pock_json json = {0};
    pock_json_open(&json, NULL, '{');
    pock_json_string(&json, "event", "stopped");
    pock_json_integer(&json, "step", training->position.step);
    pock_json_integer(&json, "epoch", pock_training_epoch(training));
    if (training->position.best_step) {
        pock_json_integer(&json, "best_step", training->position.best_step);
        pock_json_number(&json, "best_loss", training->position.best_loss);
    }
    pock_json_close(&json, '}');
    return pock_emit(training->job, &json);
}

/* The same seed gives the same random numbers; the low half counts the runs. */
static void seed_generator(const pock_machine *machine, uint64_t seed) {
    const pock_tensor *generator = find_generator(machine->model);
    uint64_t value = seed << 32;
    if (generator) {
        memcpy(pock_machine_at(machine, generator), &value, sizeof value);
        pock_machine_changed(machine);
    }
}

/* Where the run begins: at zero or where the checkpoint stands, whose order then goes on. */
static int find_position(pock_training *training) {
    pock_job *job = training->job;
    const pock_options *options = job->options;
    pock_position *position = &training->position;
    int watched = options->resume || options->checkpoint;
    *position = (pock_position){.seed = options->seed,
                                .shuffle = !options->no_shuffle,
                                .samples = job->dataset.samples,
                                .step_samples = pock_stream_step_samples(&training->stream),
                                .last_batch = training->stream.last_batch,
                                .eval_share = job->split.share,
                                .eval_seed = job->split.seed};
    int code = watched ? pock_frozen_digest(&job->machine, &position->frozen, &job->error) : POCK_OK;
    if (code) {
        return code;
    }
    if (!options->resume) {
        seed_generator(&job->machine, options->seed);
        return POCK_OK;
    }
    code = pock_checkpoint_load(&job->machine, options->resume, position, training->best, &job->error);
    if (!code && ((options->seed_given && options->seed != position->seed) || (options->no_shuffle && position->shuffle))) {
        code = pock_fail(&job->error, POCK_USAGE, "%s was made with another order of samples; leave --seed and --no-shuffle out",
                         options->resume);
    }
    return code;
}

/* How the run goes through the dataset, and after which step it ends. */
static int plan_run(pock_training *training) {
    pock_job *job = training->job;
    const pock_options *options = job->options;
    const pock_model *model = job->machine.model;
    pock_stream *stream = &training->stream;
    *stream = (pock_stream){{job->dataset.samples, 0, 0}, model->batch, pock_micro_batches(model), model->last_batch};
    if (!pock_stream_possible(stream)) {
        return pock_fail(&job->error, POCK_BAD_DATA,
                         "%s has %llu samples, fewer than the %llu of one step; compile with a smaller batch or last_batch: wrap",
                         options->data, (unsigned long long)job->dataset.samples,
                         (unsigned long long)pock_stream_step_samples(stream));
    }
    uint64_t all = options->epochs ? pock_stream_steps(stream, options->epochs) : options->steps;
    training->steps = options->steps && options->steps < all ? options->steps : all;
    return all ? POCK_OK : pock_fail(&job->error, POCK_USAGE, "--epochs %llu are more steps than can be counted",
                                     (unsigned long long)options->epochs);
}

/* Finds out before the first step whether the last one can be kept, and where the best weights go meanwhile. */
static int check_outputs(pock_training *training) {
    pock_job *job = training->job;
    const pock_options *options = job->options;
    const char *outputs[] = {options->save, options->save_trained, options->checkpoint};
    const char *weights = options->save ? options->save : options->save_trained;
    int code = POCK_OK;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs && !code; i++) {
        code = outputs[i] ? pock_output_possible(outputs[i], &job->error) : POCK_OK;
    }
    if (code || !options->patience || !weights) {
        return code;
    }
    size_t bytes = strlen(weights) + sizeof BEST_SUFFIX;
    training->best = malloc(bytes);
    if (!training->best) {
        return pock_fail(&job->error, POCK_MEMORY, "out of memory");
    }
    snprintf(training->best, bytes, "%s%s", weights, BEST_SUFFIX);
    return pock_output_possible(training->best, &job->error);
}

static int one_step(pock_training *training) {
    pock_job *job = training->job;
    double loss = 0;
    double ms = 0;
    int code = pock_run_step(job, &training->stream, training->position.step, &loss, &ms);
    if (code) {
        return code;
    }
    training->position.step++;
    if (!isfinite(loss)) {
        return pock_fail(&job->error, POCK_DIVERGED, "training diverged: the loss is %s at step %llu; lower the learning rate",
                         isnan(loss) ? "not a number" : "infinite", (unsigned long long)training->position.step);
    }
    code = pock_measured_add(&job->measured, loss, ms, &job->error);
    return code ? code : emit_step(training, loss, ms);
}

/* Whether the run is over, by its length or by its evaluations. */
static int is_over(const pock_training *training) {
    return training->position.step >= training->steps || pock_validation_stops(training);
}

static int write_checkpoint(const pock_training *training) {
    pock_job *job = training->job;
    const char *path = job->options->checkpoint;
    int code = pock_checkpoint_save(&job->machine, path, &training->position, training->best, &job->error);
    return code ? code : pock_emit_saved(job, path);
}

static int end_paused(const pock_training *training) {
    return pock_fail(&training->job->error, POCK_PAUSED, "paused after step %llu; --resume %s goes on",
                     (unsigned long long)training->position.step, training->job->options->checkpoint);
}

static int checkpoint_due(const pock_training *training) {
    const pock_options *options = training->job->options;
    return options->checkpoint &&
           (asked_to_pause || training->position.step % options->checkpoint_every == 0 || is_over(training));
}

/* A checkpoint follows the evaluation of its step, so that a resumed run does not repeat it. An evaluation only because the
 * run ends comes after the checkpoint: a longer run would not have made it. A run that is over does not pause. */
static int all_steps(pock_training *training) {
    const pock_options *options = training->job->options;
    int code = POCK_OK;
    while (!code && !is_over(training)) {
        code = one_step(training);
        if (!code && pock_validation_due(training)) {
            code = pock_validate(training);
        }
        if (!code && checkpoint_due(training)) {
            int pausing = asked_to_pause && !is_over(training);
            code = write_checkpoint(training);
            code = code || !pausing ? code : end_paused(training);
        }
    }
    if (!code && options->eval_data && training->position.evaluated != training->position.step) {
        code = pock_validate(training);
    }
    return code;
}

static int save_weights(pock_training *training) {
    pock_job *job = training->job;
    const pock_options *options = job->options;
    int code = POCK_OK;
    if (training->best && training->position.best_step && training->position.best_step != training->position.step) {
        code = pock_machine_load(&job->machine, training->best, &job->error);
    }
    const char *outputs[] = {options->save, options->save_trained};
    for (int only_trained = 0; only_trained < 2; only_trained++) {
        if (!code && outputs[only_trained]) {
            code = pock_machine_save(&job->machine, outputs[only_trained], only_trained, &job->error);
            code = code ? code : pock_emit_saved(job, outputs[only_trained]);
        }
    }
    return code;
}

/* What the report says beside losses and evaluations. */
static int conclude(pock_training *training) {
    pock_measured *measured = &training->job->measured;
    measured->best_step = training->position.best_step;
    measured->best_loss = training->position.best_loss;
    measured->stopped_early = training->position.step < training->steps;
    int by_steps = training->job->options->steps == training->steps;
    measured->ended = measured->stopped_early ? "patience" : by_steps ? "steps" : "epochs";
    return measured->stopped_early ? emit_stopped(training) : POCK_OK;
}

/* Running statistics of batch norms from the first batches of the order; a resumed run has them from its checkpoint. */
static int estimate_norms(pock_training *training) {
    pock_job *job = training->job;
    const pock_model *model = job->machine.model;
    uint64_t whole = job->dataset.samples / model->batch;
    uint64_t batches = !model->norms || job->options->resume ? 0 : model->norm_batches;
    if (batches > whole) {
        batches = whole ? whole : 1;
    }
    int code = POCK_OK;
    for (uint64_t done = 0; done < batches && !code; done++) {
        pock_batch batch = {&job->dataset, training->stream.order, {done * model->batch, UINT64_MAX}};
        code = pock_feed(&job->machine, &job->ahead, &batch, &job->error);
        code = code ? code : pock_norms_take(&job->machine, done, &job->error);
    }
    job->measured.norm_batches = batches;
    return code;
}

static int run_training(pock_training *training) {
    pock_job *job = training->job;
    const pock_program *program = job->machine.model->train;
    watch_for_pause(job->options);
    int code = check_outputs(training);
    code = code ? code : plan_run(training);
    code = code ? code : find_position(training);
    training->stream.order.seed = training->position.seed;
    training->stream.order.shuffle = training->position.shuffle != 0;
    if (!code && job->options->profile) {
        code = pock_measured_profile(&job->measured, program, &job->error);
    }
    code = code ? code : pock_emit_start(job, program, training->steps, training->position.step);
    code = code ? code : estimate_norms(training);
    code = code ? code : all_steps(training);
    code = code ? code : conclude(training);
    return code ? code : save_weights(training);
}

int pock_train(pock_job *job) {
    pock_training training = {.job = job};
    int code = run_training(&training);
    if (training.best) {
        unlink(training.best);
    }
    free(training.best);
    return code;
}
