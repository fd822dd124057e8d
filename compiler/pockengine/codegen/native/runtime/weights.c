/* Weights files: what may replace a model's parameters, and how they get in and out. */
#include "platform.h"

#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "rounded.h"
#include "tables.h"
#include "tensor_file.h"

static int is_replaceable(const pock_machine *machine, const pock_tensor *tensor) {
    return tensor->trained || (!machine->model->const_count && !pock_stays_in_file(tensor));
}

static int is_compiled_in(const pock_tensor *tensor, pock_error *error) {
    return pock_fail(error, POCK_BAD_DATA,
                     "frozen parameter '%s' differs from the one compiled in; compile the model again with these weights",
                     tensor->name);
}

int pock_machine_may_replace(const pock_machine *machine, const pock_tensor *tensor, const void *data,
                             pock_error *error) {
    if (is_replaceable(machine, tensor)) {
        return POCK_OK;
    }
    char present[POCK_PIECE];
    int code = POCK_OK;
    for (uint64_t at = 0; at < tensor->nbytes && !code; at += POCK_PIECE) {
        size_t bytes = pock_piece_at(tensor, at);
        code = pock_machine_read(machine, tensor, present, bytes, at, error);
        if (!code && memcmp((const char *)data + (size_t)at, present, bytes) != 0) {
            code = is_compiled_in(tensor, error);
        }
    }
    return code;
}

/* As pock_machine_may_replace, of contents in a file, read piece by piece to keep the promised memory. */
static int may_load(const pock_machine *machine, const pock_tensor *tensor, const pock_tensor_file *file,
                    const pock_stored *stored, pock_error *error) {
    char piece[POCK_PIECE], present[POCK_PIECE];
    int code = pock_tensor_file_fits(file, stored, tensor, error);
    if (code || is_replaceable(machine, tensor)) {
        return code;
    }
    for (uint64_t at = 0; at < stored->nbytes && !code; at += POCK_PIECE) {
        size_t bytes = pock_piece_at(tensor, at);
        code = pock_file_read(file->descriptor, file->path, piece, bytes, stored->begin + at, error);
        code = code ? code : pock_machine_read(machine, tensor, present, bytes, at, error);
        if (!code && memcmp(piece, present, bytes) != 0) {
            code = is_compiled_in(tensor, error);
        }
    }
    return code;
}

/* Whether the compiler stored a weight of this name as codes and `NAME.scales`. */
static int is_quantised(const pock_model *model, const char *name) {
    size_t length = strlen(name);
    for (uint32_t i = 0; i < model->param_count; i++) {
        const char *param = model->params[i].name;
        if (strncmp(param, name, length) == 0 && strcmp(param + length, ".scales") == 0) {
            return 1;
        }
    }
    return 0;
}

static int load_one(pock_machine *machine, const pock_tensor_file *file, const pock_stored *stored, int only_check,
                    pock_error *error) {
    const pock_model *model = machine->model;
    for (uint32_t i = 0; i < model->param_count; i++) {
        const pock_tensor *param = &model->params[i];
        if (strcmp(param->name, stored->name) == 0 && only_check) {
            return may_load(machine, param, file, stored, error);
        }
        if (strcmp(param->name, stored->name) == 0 && pock_stays_in_file(param)) {
            return POCK_OK; /* it is the same */
        }
        if (strcmp(param->name, stored->name) == 0) {
            int code = pock_tensor_file_read(file, stored, param, pock_machine_at(machine, param), error);
            pock_restart_average(model, machine->space, param);
            return code;
        }
    }
    if (is_quantised(model, stored->name)) {
        return pock_fail(error, POCK_BAD_DATA, "%s holds '%s', which this model keeps quantised and which takes no "
                         "floating-point weights: compile a model that has them, or without 'frozen'", file->path,
                         stored->name);
    }
    return pock_fail(error, POCK_BAD_DATA, "%s holds '%s', which is not a parameter of this model%s", file->path,
                     stored->name, pock_nearest(stored->name, pock_tensor_at, model->params, model->param_count).text);
}

static void unpack_all(const pock_machine *machine) {
    for (uint32_t i = 0; i < machine->model->param_count; i++) {
        pock_machine_unpack(machine, &machine->model->params[i]);
    }
}

static void pack_all(const pock_machine *machine) {
    for (uint32_t i = 0; i < machine->model->param_count; i++) {
        pock_machine_pack(machine, &machine->model->params[i]);
    }
}

/* Every tensor is checked before the first is replaced, so that a refused file changes nothing. */
int pock_machine_load(pock_machine *machine, const char *path, pock_error *error) {
    pock_tensor_file file = {0};
    int code = pock_tensor_file_open(&file, path, error);
    if (!code && !file.count) {
        code = pock_fail(error, POCK_BAD_DATA, "%s holds no tensor", path);
    }
    code = code ? code : pock_machine_fetch(machine, error);
    unpack_all(machine);
    for (int only_check = 1; only_check >= 0; only_check--) {
        for (size_t i = 0; i < file.count && !code; i++) {
            code = load_one(machine, &file, &file.tensors[i], only_check, error);
        }
    }
    pack_all(machine);
    pock_machine_changed(machine);
    pock_tensor_file_close(&file);
    return code;
}

/* What is saved of a parameter; NULL for what is not in memory as it is in files. */
static const void *contents(const pock_machine *machine, const pock_tensor *param) {
    const pock_tensor *kept = pock_machine_averaged(machine, param);
    return pock_stays_in_file(kept) || kept->dtype != param->dtype ? NULL : pock_machine_at(machine, kept);
}

/* A piece of such a parameter: it stays in the weights file, or is in bf16 and has an average of f32. */
static int piece_of(const pock_machine *machine, const pock_tensor *param, uint16_t *piece, size_t bytes, uint64_t at,
                    pock_error *error) {
    const pock_tensor *kept = pock_machine_averaged(machine, param);
    if (kept == param) {
        return pock_table_read(machine, param, piece, bytes, at, error);
    }
    const float *average = pock_machine_at(machine, kept);
    pock_round(piece, param->dtype, average + (size_t)at / sizeof *piece, bytes / sizeof *piece);
    return POCK_OK;
}

/* Puts them into a file of all parameters, or of those that training changes. */
static int put_pieces(const pock_machine *machine, pock_tensor_writer *writer, int only_trained, pock_error *error) {
    uint64_t begin = 0;
    int code = POCK_OK;
    for (uint32_t i = 0; i < machine->model->param_count; i++) {
        const pock_tensor *param = &machine->model->params[i];
        if (only_trained && !param->trained) {
            continue;
        }
        uint16_t piece[POCK_PIECE / sizeof(uint16_t)];
        for (uint64_t at = 0; !contents(machine, param) && at < param->nbytes && !code; at += POCK_PIECE) {
            size_t bytes = pock_piece_at(param, at);
            code = piece_of(machine, param, piece, bytes, at, error);
            code = code ? code : pock_tensor_writer_put(writer, begin + at, piece, bytes, error);
        }
        begin += param->nbytes;
    }
    return code;
}

int pock_machine_save(const pock_machine *machine, const char *path, int only_trained, pock_error *error) {
    const pock_model *model = machine->model;
    pock_entry *entries = calloc(model->param_count + 1, sizeof *entries);
    size_t count = 0;
    if (!entries) {
        return pock_fail(error, POCK_MEMORY, "out of memory writing %s", path);
    }
    for (uint32_t i = 0; i < model->param_count; i++) {
        const pock_tensor *param = &model->params[i];
        if (param->trained || !only_trained) {
            entries[count++] = (pock_entry){param->name, param->dtype, param->rank, param->shape, param->nbytes,
                                            contents(machine, param)};
        }
    }
    if (!only_trained) {
        unpack_all(machine);
    }
    pock_tensor_writer writer = {0};
    int code = pock_machine_fetch(machine, error);
    code = code ? code : pock_tensor_writer_open(&writer, path, entries, count, "{\"format\":\"pt\"}", error);
    code = code ? code : put_pieces(machine, &writer, only_trained, error);
    code = code ? code : pock_tensor_writer_commit(&writer, error);
    pock_tensor_writer_abandon(&writer);
    if (!only_trained) {
        pack_all(machine);
    }
    free(entries);
    return code;
}
