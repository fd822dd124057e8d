#include "platform.h"

#include <stdlib.h>
#include <string.h>

#include "batch.h"

static size_t elements_per_sample(const pock_tensor *input, const pock_model *model) {
    return (size_t)input->nbytes / pock_dtype_bytes(input->dtype) / model->batch;
}

/* An input may have several rows a sample: the patches of an image. */
static uint64_t rows_per_sample(const pock_tensor *input, const pock_model *model) {
    return (uint64_t)input->shape[0] / model->batch;
}

/* NaN is checked before conversion: no integer stands for it. */
static int convert_sample(const pock_dataset *dataset, const pock_tensor *input, const pock_stored *stored, void *to,
                          uint64_t sample, pock_error *error) {
    size_t count = elements_per_sample(input, dataset->model);
    size_t bad = pock_convert(to, input->dtype, dataset->scratch, stored->dtype, count);
    if (bad == count) {
        return POCK_OK;
    }
    double value = 0;
    if (stored->dtype == POCK_F32) {
        value = (double)((const float *)dataset->scratch)[bad];
    } else if (stored->dtype == POCK_F64) {
        value = ((const double *)dataset->scratch)[bad];
    } else {
        return pock_fail(error, POCK_BAD_DATA, "'%s' in %s holds a number at sample %llu that %s cannot hold", input->name,
                         dataset->file.path, (unsigned long long)sample, pock_dtype_name(input->dtype));
    }
    if (value != value) {
        return pock_fail(error, POCK_BAD_DATA, "'%s' in %s holds a NaN at sample %llu", input->name, dataset->file.path,
                         (unsigned long long)sample);
    }
    return pock_fail(error, POCK_BAD_DATA, "'%s' in %s holds %g at sample %llu, which %s cannot hold", input->name,
                     dataset->file.path, value, (unsigned long long)sample, pock_dtype_name(input->dtype));
}

/* Reads one sample of one input to `to`, converted and checked. */
static int read_sample(const pock_dataset *dataset, uint32_t index, uint64_t sample, void *to, pock_error *error) {
    const pock_tensor *input = &dataset->model->inputs[index];
    const pock_stored *stored = dataset->inputs[index];
    size_t count = elements_per_sample(input, dataset->model);
    size_t bytes = count * pock_dtype_bytes(stored->dtype);
    int same = stored->dtype == input->dtype;
    int code = pock_file_read(dataset->file.descriptor, dataset->file.path, same ? to : dataset->scratch, bytes,
                              stored->begin + sample * bytes, error);
    if (!code && !same) {
        code = convert_sample(dataset, input, stored, to, sample, error);
    }
    return code ? code : pock_check_values(input, to, count, count, dataset->file.path, sample, error);
}

static int check_shape(const pock_dataset *dataset, const pock_tensor *input, const pock_stored *stored,
                       pock_error *error) {
    const char *path = dataset->file.path;
    if (stored->dtype != input->dtype && !pock_convertible(input->dtype, stored->dtype)) {
        return pock_fail(error, POCK_BAD_DATA, "'%s' in %s is %s, the model needs %s", input->name, path,
                         pock_dtype_name(stored->dtype), pock_dtype_name(input->dtype));
    }
    if (stored->rank != input->rank || stored->rank == 0 ||
        memcmp(stored->shape + 1, input->shape + 1, (input->rank - 1u) * sizeof(int64_t)) != 0) {
        return pock_fail(error, POCK_BAD_DATA, "'%s' in %s has shape %s, the model needs %s with any number of samples first",
                         input->name, path, pock_show_shape(stored->shape, stored->rank).text,
                         pock_show_shape(input->shape, input->rank).text);
    }
    return POCK_OK;
}

static int match_input(pock_dataset *dataset, uint32_t index, int needed, pock_error *error) {
    const pock_tensor *input = &dataset->model->inputs[index];
    const pock_tensor_file *file = &dataset->file;
    const pock_stored *stored = pock_tensor_file_find(file, input->name);
    if (!needed || (!stored && input->target == POCK_SAMPLE_WEIGHT)) {
        return POCK_OK;
    }
    if (!stored) {
        return pock_fail(error, POCK_BAD_DATA, "%s has no tensor '%s'%s", file->path, input->name,
                         pock_nearest(input->name, pock_stored_at, file->tensors, file->count).text);
    }
    int code = check_shape(dataset, input, stored, error);
    if (code) {
        return code;
    }
    uint64_t rows = rows_per_sample(input, dataset->model);
    uint64_t samples = (uint64_t)stored->shape[0] / rows;
    if ((uint64_t)stored->shape[0] % rows) {
        return pock_fail(error, POCK_BAD_DATA, "'%s' in %s has %llu rows, and the model reads %llu for each sample",
                         input->name, file->path, (unsigned long long)stored->shape[0], (unsigned long long)rows);
    }
    if (samples == 0) {
        return pock_fail(error, POCK_BAD_DATA, "%s has no samples", file->path);
    }
    if (dataset->samples && dataset->samples != samples) {
        return pock_fail(error, POCK_BAD_DATA, "'%s' in %s has %llu samples, another tensor has %llu", input->name,
                         file->path, (unsigned long long)samples, (unsigned long long)dataset->samples);
    }
    dataset->samples = samples;
    dataset->inputs[index] = stored;
    return POCK_OK;
}

/* A tensor that the model does not read is most likely a misspelt one. */
static int refuse_unknown(const pock_dataset *dataset, pock_error *error) {
    const pock_model *model = dataset->model;
    for (size_t i = 0; i < dataset->file.count; i++) {
        const char *name = dataset->file.tensors[i].name;
        int known = 0;
        for (uint32_t input = 0; input < model->input_count; input++) {
            known |= strcmp(name, model->inputs[input].name) == 0;
        }
        if (!known) {
            return pock_fail(error, POCK_BAD_DATA, "%s has a tensor '%s' that is no input of the model%s",
                             dataset->file.path, name,
                             pock_nearest(name, pock_tensor_at, model->inputs, model->input_count).text);
        }
    }
    return POCK_OK;
}

static int allocate_scratch(pock_dataset *dataset, pock_error *error) {
    size_t most = 1;
    for (uint32_t i = 0; i < dataset->model->input_count; i++) {
        const pock_tensor *input = &dataset->model->inputs[i];
        if (dataset->inputs[i] && dataset->inputs[i]->dtype != input->dtype) {
            size_t bytes = elements_per_sample(input, dataset->model) * pock_dtype_bytes(dataset->inputs[i]->dtype);
            most = bytes > most ? bytes : most;
        }
    }
    dataset->scratch = malloc(most);
    return dataset->scratch ? POCK_OK : pock_fail(error, POCK_MEMORY, "out of memory reading %s", dataset->file.path);
}

static int check_all_samples(const pock_dataset *dataset, uint32_t index, pock_error *error) {
    void *sample = malloc((size_t)dataset->model->inputs[index].nbytes / dataset->model->batch);
    int code = sample ? POCK_OK : pock_fail(error, POCK_MEMORY, "out of memory reading %s", dataset->file.path);
    for (uint64_t i = 0; i < dataset->samples && !code; i++) {
        code = read_sample(dataset, index, i, sample, error);
    }
    free(sample);
    return code;
}

/* Labels and weights are small: all are checked before the first step, so that a bad one does not show up after an hour.
 * Other targets (a teacher's logits) may be large and are checked as they are read. */
static int check_all_targets(const pock_dataset *dataset, pock_error *error) {
    int code = POCK_OK;
    for (uint32_t i = 0; i < dataset->model->input_count && !code; i++) {
        const pock_tensor *input = &dataset->model->inputs[i];
        int small = input->target == POCK_SAMPLE_WEIGHT || (input->target && pock_is_integer(input->dtype));
        code = small && dataset->inputs[i] ? check_all_samples(dataset, i, error) : POCK_OK;
    }
    return code;
}

int pock_dataset_open(pock_dataset *dataset, const pock_model *model, const char *path, int labelled, pock_error *error) {
    dataset->model = model;
    if (model->input_count > POCK_MAX_INPUTS) {
        return pock_fail(error, POCK_FAILED, "the model has more than %d inputs", POCK_MAX_INPUTS);
    }
    int code = pock_tensor_file_open(&dataset->file, path, error);
    for (uint32_t i = 0; i < model->input_count && !code; i++) {
        code = match_input(dataset, i, labelled || !model->inputs[i].target, error);
    }
    code = code ? code : refuse_unknown(dataset, error);
    code = code ? code : allocate_scratch(dataset, error);
    code = code ? code : check_all_targets(dataset, error);
    if (code) {
        pock_dataset_close(dataset);
    }
    return code;
}

/* Above so many, classes are not told apart: most would have one sample or two. */
#define MOST_CLASSES 16384

/* A dataset and the input that has its classes. */
typedef struct {
    const pock_dataset *dataset;
    uint32_t index;
} labels;

/* What is ignored is a class of its own, after all others. */
static int class_at(const void *context, uint64_t sample, uint64_t *found, pock_error *error) {
    const labels *of = context;
    const pock_tensor *input = &of->dataset->model->inputs[of->index];
    int64_t label = 0;
    int code = read_sample(of->dataset, of->index, sample, &label, error);
    label = code ? 0 : pock_integer_at(&label, input->dtype, 0);
    *found = label >= 0 && label < input->limit ? (uint64_t)label : (uint64_t)input->limit;
    return code;
}

static int has_classes(const pock_dataset *dataset, uint32_t index) {
    const pock_tensor *input = &dataset->model->inputs[index];
    return input->target == POCK_TARGET && dataset->inputs[index] && pock_is_integer(input->dtype) && input->limit > 1 &&
           input->limit <= MOST_CLASSES && elements_per_sample(input, dataset->model) == 1;
}

int pock_dataset_split(const pock_dataset *dataset, double share, uint64_t seed, pock_split *split, pock_error *error) {
    labels of = {dataset, 0};
    while (of.index < dataset->model->input_count && !has_classes(dataset, of.index)) {
        of.index++;
    }
    int labelled = of.index < dataset->model->input_count;
    uint64_t limit = labelled ? (uint64_t)dataset->model->inputs[of.index].limit + 1 : 1;
    pock_classes classes = {class_at, &of, limit};
    return pock_split_make(split, dataset->samples, share, seed, &classes, error);
}

void pock_dataset_take(pock_dataset *dataset, const pock_split *split, int held) {
    dataset->split = split;
    dataset->held = held;
    dataset->samples = pock_split_samples(split, held);
}

void pock_dataset_close(pock_dataset *dataset) {
    free(dataset->scratch);
    pock_tensor_file_close(&dataset->file);
    memset(dataset, 0, sizeof *dataset);
}

/* The weights of a batch: the dataset's or 1, and 0 for rows that only fill it up. */
static int fill_weights(const pock_dataset *dataset, uint32_t index, float *weights, uint64_t last, pock_error *error) {
    float sum = 0;
    for (uint64_t row = 0; row < dataset->model->batch; row++) {
        weights[row] = row > last ? 0 : dataset->inputs[index] ? weights[row] : 1;
        sum += weights[row];
    }
    return sum > 0 ? POCK_OK
                   : pock_fail(error, POCK_BAD_DATA, "'%s' in %s is 0 for all samples of a batch: leave such samples out",
                               dataset->model->inputs[index].name, dataset->file.path);
}

int pock_dataset_fill(pock_dataset *dataset, const pock_machine *machine, const pock_order *order, pock_rows rows,
                      pock_error *error) {
    const pock_model *model = dataset->model;
    uint64_t left = rows.last - rows.position;
    int code = POCK_OK;
    for (uint32_t row = 0; row < model->batch && !code; row++) {
        uint64_t sample = pock_order_at(order, row < left ? rows.position + row : rows.last);
        sample = dataset->split ? pock_split_at(dataset->split, dataset->held, sample) : sample;
        for (uint32_t i = 0; i < model->input_count && !code; i++) {
            char *block = pock_machine_at(machine, &model->inputs[i]);
            if (dataset->inputs[i]) {
                code = read_sample(dataset, i, sample, block + row * (model->inputs[i].nbytes / model->batch), error);
            }
        }
    }
    for (uint32_t i = 0; i < model->input_count && !code; i++) {
        if (model->inputs[i].target == POCK_SAMPLE_WEIGHT) {
            code = fill_weights(dataset, i, pock_machine_at(machine, &model->inputs[i]), left, error);
        }
    }
    return code;
}

/* A small linear congruential generator (Numerical Recipes): the values matter little, that they repeat does. */
void pock_fill_synthetic(const pock_machine *machine) {
    uint32_t seed = 1;
    for (uint32_t i = 0; i < machine->model->input_count; i++) {
        const pock_tensor *input = &machine->model->inputs[i];
        void *block = pock_machine_at(machine, input);
        size_t count = (size_t)input->nbytes / pock_dtype_bytes(input->dtype);
        memset(block, 0, (size_t)input->nbytes);
        for (size_t element = 0; element < count; element++) {
            seed = seed * 1664525u + 1013904223u;
            int64_t drawn = input->limit ? (int64_t)(seed >> 8) % input->limit : 0;
            if (input->target == POCK_SAMPLE_WEIGHT) {
                ((float *)block)[element] = 1;
            } else if (input->dtype == POCK_F32) {
                ((float *)block)[element] = (float)(seed >> 8) / 8388608.0f - 1.0f;
            } else if (input->dtype == POCK_I64) {
                ((int64_t *)block)[element] = drawn;
            } else if (input->dtype == POCK_I32) {
                ((int32_t *)block)[element] = (int32_t)drawn;
            }
        }
    }
}
