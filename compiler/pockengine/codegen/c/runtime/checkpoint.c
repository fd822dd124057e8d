#include "platform.h"

#include "checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor_file.h"

/* Four independent FNV-like lanes of eight bytes: reads at memory speed. Guards against mistakes, not against attacks. */
static uint64_t digest(uint64_t seed, const void *data, size_t bytes) {
    uint64_t lane[4] = {seed, seed ^ 1, seed ^ 2, seed ^ 3};
    const char *at = data;
    for (; bytes >= sizeof lane; bytes -= sizeof lane, at += sizeof lane) {
        uint64_t word[4];
        memcpy(word, at, sizeof word);
        for (int i = 0; i < 4; i++) {
            lane[i] = (lane[i] ^ word[i]) * 0x9E3779B97F4A7C15u;
            lane[i] ^= lane[i] >> 29;
        }
    }
    for (; bytes; bytes--, at++) {
        lane[0] = (lane[0] ^ (unsigned char)*at) * 0x100000001B3u;
    }
    return ((lane[0] * 31 + lane[1]) * 31 + lane[2]) * 31 + lane[3];
}

uint64_t pock_frozen_digest(const pock_machine *machine) {
    const pock_model *model = machine->model;
    uint64_t value = 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < model->param_count; i++) {
        const pock_tensor *param = &model->params[i];
        if (!param->trained) {
            value = digest(value, pock_machine_at(machine, param), (size_t)param->nbytes);
        }
    }
    return value;
}

/* Trained parameters and states as entries of a file; the caller frees. */
static pock_entry *list_entries(const pock_machine *machine, size_t *count) {
    const pock_model *model = machine->model;
    pock_entry *entries = calloc((size_t)model->param_count + model->state_count + 1, sizeof *entries);
    *count = 0;
    for (uint32_t i = 0; entries && i < model->param_count + model->state_count; i++) {
        int is_param = i < model->param_count;
        const pock_tensor *tensor = is_param ? &model->params[i] : &model->states[i - model->param_count];
        if (!is_param || tensor->trained) {
            entries[(*count)++] = (pock_entry){tensor->name, tensor->dtype, tensor->rank, tensor->shape, tensor->nbytes,
                                               pock_machine_at(machine, tensor)};
        }
    }
    return entries;
}

int pock_checkpoint_save(const pock_machine *machine, const char *path, const pock_position *position,
                         pock_error *error) {
    char metadata[320];
    size_t count = 0;
    pock_entry *entries = list_entries(machine, &count);
    if (!entries) {
        return pock_fail(error, POCK_MEMORY, "out of memory writing %s", path);
    }
    snprintf(metadata, sizeof metadata,
             "{\"format\":\"pock-checkpoint-1\",\"step\":\"%" PRIu64 "\",\"seed\":\"%" PRIu64 "\",\"samples\":\"%" PRIu64
             "\",\"frozen\":\"%" PRIu64 "\",\"shuffle\":\"%d\"}",
             position->step, position->seed, position->samples, position->frozen, position->shuffle);
    int code = pock_tensor_file_write(path, entries, count, metadata, error);
    free(entries);
    return code;
}

static int read_number(const pock_tensor_file *file, const char *key, uint64_t *value) {
    char text[32];
    char *end = NULL;
    if (!pock_tensor_file_metadata(file, key, text, sizeof text)) {
        return 0;
    }
    errno = 0;
    *value = strtoull(text, &end, 10);
    return end != text && !*end && errno == 0;
}

static int read_position(const pock_tensor_file *file, pock_position *position, pock_error *error) {
    char format[32];
    pock_position stored = {0};
    uint64_t shuffle = 0;
    if (!pock_tensor_file_metadata(file, "format", format, sizeof format) || strcmp(format, "pock-checkpoint-1") != 0 ||
        !read_number(file, "step", &stored.step) || !read_number(file, "seed", &stored.seed) ||
        !read_number(file, "samples", &stored.samples) || !read_number(file, "frozen", &stored.frozen) ||
        !read_number(file, "shuffle", &shuffle)) {
        return pock_fail(error, POCK_BAD_DATA, "%s is not a checkpoint of a training run; weights are given with --load",
                         file->path);
    }
    stored.shuffle = shuffle != 0;
    if (stored.samples != position->samples) {
        return pock_fail(error, POCK_BAD_DATA, "%s was made with a dataset of %" PRIu64 " samples, this one has %" PRIu64,
                         file->path, stored.samples, position->samples);
    }
    if (stored.frozen != position->frozen) {
        return pock_fail(error, POCK_BAD_DATA,
                         "%s was made with other frozen parameters; give the same --params and --load as then", file->path);
    }
    *position = stored;
    return POCK_OK;
}

static int read_tensors(pock_machine *machine, const pock_tensor_file *file, int only_check, pock_error *error) {
    const pock_model *model = machine->model;
    for (uint32_t i = 0; i < model->param_count + model->state_count; i++) {
        int is_param = i < model->param_count;
        const pock_tensor *tensor = is_param ? &model->params[i] : &model->states[i - model->param_count];
        if (is_param && !tensor->trained) {
            continue;
        }
        const pock_stored *stored = pock_tensor_file_find(file, tensor->name);
        if (!stored) {
            return pock_fail(error, POCK_BAD_DATA, "%s lacks '%s': it is a checkpoint of another model or recipe",
                             file->path, tensor->name);
        }
        int code = only_check
                       ? pock_tensor_file_fits(file, stored, tensor, error)
                       : pock_tensor_file_read(file, stored, tensor, pock_machine_at(machine, tensor), error);
        if (code) {
            return code;
        }
    }
    return POCK_OK;
}

int pock_checkpoint_load(pock_machine *machine, const char *path, pock_position *position, pock_error *error) {
    pock_tensor_file file = {0};
    int code = pock_tensor_file_open(&file, path, error);
    code = code ? code : read_tensors(machine, &file, 1, error);
    code = code ? code : read_position(&file, position, error);
    code = code ? code : read_tensors(machine, &file, 0, error);
    pock_tensor_file_close(&file);
    return code;
}
