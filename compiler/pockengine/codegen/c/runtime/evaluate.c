/* Going through a dataset once: eval and predict. */
#include "platform.h"

#include <stdlib.h>

#include "job.h"

/* Fills and runs the batch that begins at sample `first`; `*rows` of its rows are real, the rest repeat the last sample. */
static int run_batch(pock_job *job, const pock_program *program, uint64_t first, uint64_t *rows) {
    pock_order order = {job->dataset.samples, 0, 0};
    uint64_t left = job->dataset.samples - first;
    double ms = 0;
    *rows = left < job->machine.model->batch ? left : job->machine.model->batch;
    int code = pock_dataset_fill(&job->dataset, &job->machine, &order, first, job->dataset.samples - 1, &job->error);
    if (!code) {
        pock_timed_run(job, program, &ms);
        code = pock_measured_add(&job->measured, 0, ms, &job->error);
    }
    return code;
}

static double sum_rows(const pock_job *job, const pock_tensor *output, uint64_t rows) {
    const float *values = pock_machine_at(&job->machine, output);
    double sum = 0;
    for (uint64_t row = 0; row < rows; row++) {
        sum += (double)values[row];
    }
    return sum;
}

static int emit_evaluation(pock_job *job) {
    pock_json json = {0};
    pock_json_open(&json, NULL, '{');
    pock_json_string(&json, "event", "eval");
    pock_json_integer(&json, "samples", job->measured.samples);
    pock_json_number(&json, "loss", job->measured.loss[0]);
    if (job->measured.accuracy >= 0) {
        pock_json_number(&json, "accuracy", job->measured.accuracy);
    }
    pock_json_close(&json, '}');
    return pock_emit(job, &json);
}

static uint64_t batches(const pock_job *job) {
    uint32_t batch = job->machine.model->batch;
    return (job->dataset.samples + batch - 1) / batch;
}

int pock_evaluate(pock_job *job) {
    const pock_program *program = job->machine.model->eval;
    const pock_tensor *loss = program ? pock_program_output(program, "sample_loss") : NULL;
    const pock_tensor *correct = program ? pock_program_output(program, "correct") : NULL;
    double loss_sum = 0;
    double correct_sum = 0;
    uint64_t rows = 0;
    if (!loss) {
        return pock_fail(&job->error, POCK_USAGE, "this model was compiled without an evaluation");
    }
    int code = pock_emit_start(job, program, batches(job), 0);
    for (uint64_t first = 0; first < job->dataset.samples && !code; first += rows) {
        code = run_batch(job, program, first, &rows);
        loss_sum += code ? 0 : sum_rows(job, loss, rows);
        correct_sum += code || !correct ? 0 : sum_rows(job, correct, rows);
    }
    if (code) {
        return code;
    }
    job->measured.samples = job->dataset.samples;
    job->measured.loss[0] = loss_sum / (double)job->dataset.samples;
    job->measured.losses = 1;
    job->measured.accuracy = correct ? correct_sum / (double)job->dataset.samples : -1;
    return emit_evaluation(job);
}

/* Entries of the file of predictions: the model's outputs with the dataset's number of samples. `shapes` has room for
 * POCK_MAX_RANK numbers each. */
static void list_outputs(const pock_job *job, const pock_program *program, pock_entry *entries, int64_t *shapes) {
    for (uint32_t i = 0; i < program->output_count; i++) {
        const pock_tensor *output = &program->outputs[i];
        int64_t *shape = shapes + (size_t)i * POCK_MAX_RANK;
        for (uint8_t axis = 0; axis < output->rank; axis++) {
            shape[axis] = axis ? output->shape[axis] : (int64_t)job->dataset.samples;
        }
        uint64_t row = output->nbytes / job->machine.model->batch;
        entries[i] = (pock_entry){output->name, output->dtype, output->rank, shape, row * job->dataset.samples, NULL};
    }
}

static int put_rows(pock_job *job, const pock_program *program, pock_tensor_writer *writer, uint64_t first,
                    uint64_t rows) {
    uint64_t begin = 0;
    int code = POCK_OK;
    for (uint32_t i = 0; i < program->output_count && !code; i++) {
        const pock_tensor *output = &program->outputs[i];
        uint64_t row = output->nbytes / job->machine.model->batch;
        code = pock_tensor_writer_put(writer, begin + first * row, pock_machine_at(&job->machine, output),
                                      (size_t)(rows * row), &job->error);
        begin += row * job->dataset.samples;
    }
    return code;
}

static int write_predictions(pock_job *job, const pock_program *program, const pock_entry *entries) {
    pock_tensor_writer writer = {0};
    uint64_t rows = 0;
    int code =
        pock_tensor_writer_open(&writer, job->options->out, entries, program->output_count, NULL, &job->error);
    for (uint64_t first = 0; first < job->dataset.samples && !code; first += rows) {
        code = run_batch(job, program, first, &rows);
        code = code ? code : put_rows(job, program, &writer, first, rows);
    }
    if (code) {
        pock_tensor_writer_abandon(&writer);
        return code;
    }
    return pock_tensor_writer_commit(&writer, &job->error);
}

int pock_predict_all(pock_job *job) {
    const pock_program *program = job->machine.model->predict;
    if (!program) {
        return pock_fail(&job->error, POCK_USAGE, "this model was compiled without predictions");
    }
    int code = pock_emit_start(job, program, batches(job), 0);
    pock_entry *entries = calloc(program->output_count + 1, sizeof *entries);
    int64_t *shapes = calloc((size_t)program->output_count + 1, POCK_MAX_RANK * sizeof *shapes);
    if (!entries || !shapes) {
        code = pock_fail(&job->error, POCK_MEMORY, "out of memory writing %s", job->options->out);
    }
    if (!code) {
        list_outputs(job, program, entries, shapes);
        code = write_predictions(job, program, entries);
    }
    free(entries);
    free(shapes);
    job->measured.samples = job->dataset.samples;
    job->measured.losses = 0;
    job->measured.accuracy = -1;
    return code ? code : pock_emit_saved(job, job->options->out);
}
