/* Going through a dataset once: eval and predict. */
#include "platform.h"

#include <math.h>
#include <stdlib.h>

#include "job.h"

/* Fills and runs the batch that begins at sample `first`; `*rows` of its rows are real, the rest repeat the last sample.
 * Batches of the job's own dataset are its measured steps. */
static int run_batch(pock_job *job, pock_dataset *dataset, const pock_program *program, uint64_t first, uint64_t *rows) {
    double ms = 0;
    uint64_t left = dataset->samples - first;
    pock_batch batch = {dataset, {dataset->samples, 0, 0}, {first, dataset->samples - 1}}, next = batch;
    *rows = left < job->machine.model->batch ? left : job->machine.model->batch;
    next.rows.position += *rows;
    int code = pock_feed(&job->machine, &job->ahead, &batch, &job->error);
    code = code ? code : pock_timed_run(job, program, *rows < left ? &next : NULL, &ms);
    if (code) {
        return code;
    }
    return dataset == &job->dataset ? pock_measured_add(&job->measured, 0, ms, &job->error) : POCK_OK;
}

/* The f32 outputs of an evaluation, one number a sample; NULL for those that the program lacks. */
typedef struct {
    const float *value, *weight;
} pock_column;

/* A sum of values by their weights. */
typedef struct {
    double sum, weight;
} pock_mean;

static pock_column find_column(const pock_job *job, const char *value, const char *weight) {
    const pock_program *program = job->machine.model->eval;
    const pock_tensor *values = pock_program_output(program, value);
    const pock_tensor *weights = pock_program_output(program, weight);
    return (pock_column){values ? pock_machine_at(&job->machine, values) : NULL,
                         weights ? pock_machine_at(&job->machine, weights) : NULL};
}

/* A sample that counts nothing may have any value, NaN included. */
static void add_rows(pock_mean *mean, pock_column column, uint64_t rows) {
    for (uint64_t row = 0; column.value && row < rows; row++) {
        double weight = column.weight ? (double)column.weight[row] : 1;
        if (weight != 0) {
            mean->sum += weight * (double)column.value[row];
            mean->weight += weight;
        }
    }
}

static int conclude(pock_job *job, const pock_dataset *dataset, pock_mean loss, pock_mean correct,
                    pock_evaluation *evaluation) {
    if (loss.weight == 0) {
        return pock_fail(&job->error, POCK_BAD_DATA, "nothing in %s counts: every sample is masked, ignored or of weight 0",
                         dataset->file.path);
    }
    evaluation->samples = dataset->samples;
    evaluation->loss = loss.sum / loss.weight;
    evaluation->accuracy = correct.weight != 0 ? correct.sum / correct.weight : -1;
    evaluation->perplexity = job->machine.model->perplexity ? exp(evaluation->loss) : -1;
    return POCK_OK;
}

int pock_evaluate_dataset(pock_job *job, pock_dataset *dataset, pock_evaluation *evaluation) {
    const pock_program *program = job->machine.model->eval;
    pock_column loss = find_column(job, "sample_loss", "loss_weight");
    pock_column correct = find_column(job, "correct", "counted");
    pock_mean loss_mean = {0};
    pock_mean correct_mean = {0};
    uint64_t rows = 0;
    int code = POCK_OK;
    for (uint64_t first = 0; first < dataset->samples && !code; first += rows) {
        code = run_batch(job, dataset, program, first, &rows);
        add_rows(&loss_mean, loss, code ? 0 : rows);
        add_rows(&correct_mean, correct, code ? 0 : rows);
    }
    return code ? code : conclude(job, dataset, loss_mean, correct_mean, evaluation);
}

int pock_emit_evaluation(pock_job *job, const pock_evaluation *evaluation) {
    pock_json json = {0};
    pock_json_open(&json, NULL, '{');
    pock_json_string(&json, "event", "eval");
    pock_evaluation_write(&json, evaluation);
    pock_json_close(&json, '}');
    return pock_emit(job, &json);
}

static uint64_t batches(const pock_job *job) {
    uint32_t batch = job->machine.model->batch;
    return (job->dataset.samples + batch - 1) / batch;
}

int pock_evaluate(pock_job *job) {
    const pock_program *program = job->machine.model->eval;
    pock_evaluation evaluation = {0};
    if (!program) {
        return pock_fail(&job->error, POCK_USAGE, "this model was compiled without an evaluation");
    }
    int code = pock_emit_start(job, program, batches(job), 0);
    code = code ? code : pock_evaluate_dataset(job, &job->dataset, &evaluation);
    code = code ? code : pock_measured_evaluation(&job->measured, &evaluation, &job->error);
    job->measured.samples = job->dataset.samples;
    return code ? code : pock_emit_evaluation(job, &evaluation);
}

/* Entries of the file of predictions: the model's outputs with the dataset's number of samples. `shapes` has room for
 * POCK_MAX_RANK numbers each. */
static void list_outputs(const pock_job *job, const pock_program *program, pock_entry *entries, int64_t *shapes) {
    int64_t batch = job->machine.model->batch;
    for (uint32_t i = 0; i < program->output_count; i++) {
        const pock_tensor *output = &program->outputs[i];
        int64_t *shape = shapes + (size_t)i * POCK_MAX_RANK;
        for (uint8_t axis = 0; axis < output->rank; axis++) {
            shape[axis] = axis ? output->shape[axis] : output->shape[0] / batch * (int64_t)job->dataset.samples;
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
        code = run_batch(job, &job->dataset, program, first, &rows);
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
    return code ? code : pock_emit_saved(job, job->options->out);
}
