#include "platform.h"

#include "checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "tables.h"
#include "tensor_file.h"

#define FORMAT "pock-checkpoint-2"
#define BEST "best:" /* before the name of a tensor of the best weights */

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

/* What stays in the weights file is read piece by piece. */
static int digest_table(const pock_machine *machine, const pock_tensor *table, uint64_t *value, pock_error *error) {
    char piece[8192];
    int code = POCK_OK;
    for (uint64_t at = 0; at < table->nbytes && !code; at += sizeof piece) {
        size_t bytes = table->nbytes - at < sizeof piece ? (size_t)(table->nbytes - at) : sizeof piece;
        code = pock_table_read(machine, table, piece, bytes, at, error);
        *value = digest(*value, piece, bytes);
    }
    return code;
}

int pock_frozen_digest(const pock_machine *machine, uint64_t *value, pock_error *error) {
    const pock_model *model = machine->model;
    int code = POCK_OK;
    *value = 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < model->param_count && !code; i++) {
        const pock_tensor *param = &model->params[i];
        if (!param->trained && pock_stays_in_file(param)) {
            code = digest_table(machine, param, value, error);
        } else if (!param->trained) {
            pock_machine_unpack(machine, param);
            *value = digest(*value, pock_machine_at(machine, param), (size_t)param->nbytes);
            pock_machine_pack(machine, param);
        }
    }
    return code;
}

/* The numbers of the metadata; those that are not whole go beside them, bit by bit. What checkpoints of before lack is 0. */
static const struct {
    const char *key;
    size_t field;
    int may_lack;
} NUMBERS[] = {
    {"step", offsetof(pock_position, step), 0},
    {"seed", offsetof(pock_position, seed), 0},
    {"shuffle", offsetof(pock_position, shuffle), 0},
    {"samples", offsetof(pock_position, samples), 0},
    {"step_samples", offsetof(pock_position, step_samples), 0},
    {"last_batch", offsetof(pock_position, last_batch), 0},
    {"frozen", offsetof(pock_position, frozen), 0},
    {"evaluated", offsetof(pock_position, evaluated), 0},
    {"best_step", offsetof(pock_position, best_step), 0},
    {"waited", offsetof(pock_position, waited), 0},
    {"best_loss_bits", offsetof(pock_position, best_loss), 0},
    {"eval_share_bits", offsetof(pock_position, eval_share), 1},
    {"eval_seed", offsetof(pock_position, eval_seed), 1},
};
#define NUMBER_COUNT (sizeof NUMBERS / sizeof *NUMBERS)
#define NUMBER_TEXT 24

static void write_metadata(pock_json *json, const pock_position *position) {
    char text[NUMBER_TEXT];
    uint64_t value = 0;
    pock_json_open(json, NULL, '{');
    pock_json_string(json, "format", FORMAT);
    for (size_t i = 0; i < NUMBER_COUNT; i++) {
        memcpy(&value, (const char *)position + NUMBERS[i].field, sizeof value);
        snprintf(text, sizeof text, "%" PRIu64, value);
        pock_json_string(json, NUMBERS[i].key, text);
    }
    pock_json_close(json, '}');
}

/* A file being written: entries of tensors in memory, then those copied from the file of the best weights. */
typedef struct {
    pock_entry *entries;
    size_t count;
    pock_tensor_file best;
    char *names; /* of the entries copied */
} pock_listing;

static void list_memory(pock_listing *listing, const pock_machine *machine) {
    const pock_model *model = machine->model;
    for (uint32_t i = 0; i < model->param_count + model->state_count; i++) {
        int is_param = i < model->param_count;
        const pock_tensor *tensor = is_param ? &model->params[i] : &model->states[i - model->param_count];
        if (!is_param || tensor->trained) {
            listing->entries[listing->count++] = (pock_entry){
                tensor->name, tensor->dtype, tensor->rank, tensor->shape, tensor->nbytes, pock_machine_at(machine, tensor)};
        }
    }
}

/* Entries of the tensors of a file, each under its name behind `prefix`. `*names` keeps the names. */
static int list_file(pock_entry *entries, const pock_tensor_file *file, const char *prefix, char **names,
                     pock_error *error) {
    size_t bytes = 1;
    for (size_t i = 0; i < file->count; i++) {
        bytes += strlen(prefix) + strlen(file->tensors[i].name) + 1;
    }
    *names = malloc(bytes);
    if (!*names) {
        return pock_fail(error, POCK_MEMORY, "out of memory copying %s", file->path);
    }
    char *name = *names;
    for (size_t i = 0; i < file->count; i++) {
        const pock_stored *stored = &file->tensors[i];
        entries[i] = (pock_entry){name, stored->dtype, stored->rank, stored->shape, stored->nbytes, NULL};
        name += 1 + sprintf(name, "%s%s", prefix, stored->name);
    }
    return POCK_OK;
}

/* Copies a tensor's bytes from file to file, piece by piece to keep the promised memory. */
static int copy_tensor(pock_tensor_writer *writer, uint64_t offset, const pock_tensor_file *file, const pock_stored *stored,
                       pock_error *error) {
    char piece[16384];
    int code = POCK_OK;
    for (uint64_t at = 0; at < stored->nbytes && !code; at += sizeof piece) {
        size_t bytes = stored->nbytes - at < sizeof piece ? (size_t)(stored->nbytes - at) : sizeof piece;
        code = pock_file_read(file->descriptor, file->path, piece, bytes, stored->begin + at, error);
        code = code ? code : pock_tensor_writer_put(writer, offset + at, piece, bytes, error);
    }
    return code;
}

/* Copies all of a file's tensors, in its order, to `offset` and on. */
static int copy_tensors(pock_tensor_writer *writer, uint64_t offset, const pock_tensor_file *file, pock_error *error) {
    int code = POCK_OK;
    for (size_t i = 0; i < file->count && !code; i++) {
        code = copy_tensor(writer, offset, file, &file->tensors[i], error);
        offset += file->tensors[i].nbytes;
    }
    return code;
}

static int make_listing(pock_listing *listing, const pock_machine *machine, const char *best, pock_error *error) {
    const pock_model *model = machine->model;
    int code = best ? pock_tensor_file_open(&listing->best, best, error) : POCK_OK;
    size_t room = (size_t)model->param_count + model->state_count + listing->best.count + 1;
    listing->entries = code ? NULL : calloc(room, sizeof *listing->entries);
    if (!code && !listing->entries) {
        code = pock_fail(error, POCK_MEMORY, "out of memory writing a checkpoint");
    }
    if (!code) {
        list_memory(listing, machine);
        code = list_file(listing->entries + listing->count, &listing->best, BEST, &listing->names, error);
    }
    return code;
}

static int write_checkpoint(const pock_listing *listing, const char *path, const char *metadata, pock_error *error) {
    pock_tensor_writer writer = {0};
    uint64_t offset = 0;
    int code = pock_tensor_writer_open(&writer, path, listing->entries, listing->count + listing->best.count, metadata, error);
    if (code) {
        return code;
    }
    for (size_t i = 0; i < listing->count; i++) {
        offset += listing->entries[i].nbytes;
    }
    code = copy_tensors(&writer, offset, &listing->best, error);
    if (code) {
        pock_tensor_writer_abandon(&writer);
        return code;
    }
    return pock_tensor_writer_commit(&writer, error);
}

int pock_checkpoint_save(const pock_machine *machine, const char *path, const pock_position *position, const char *best,
                         pock_error *error) {
    pock_listing listing = {0};
    pock_json metadata = {0};
    write_metadata(&metadata, position);
    int code = metadata.failed ? pock_fail(error, POCK_MEMORY, "out of memory writing %s", path)
                               : pock_machine_fetch(machine, error);
    code = code ? code : make_listing(&listing, machine, position->best_step ? best : NULL, error);
    code = code ? code : write_checkpoint(&listing, path, metadata.text, error);
    pock_tensor_file_close(&listing.best);
    free(listing.entries);
    free(listing.names);
    pock_json_free(&metadata);
    return code;
}

static int read_number(const pock_tensor_file *file, const char *key, int may_lack, void *value) {
    char text[NUMBER_TEXT];
    char *end = NULL;
    if (!pock_tensor_file_metadata(file, key, text, sizeof text)) {
        return may_lack;
    }
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    memcpy(value, &number, sizeof number);
    return end != text && !*end && errno == 0;
}

static int read_position(const pock_tensor_file *file, pock_position *position, pock_error *error) {
    char format[32];
    pock_position stored = {0};
    int valid = pock_tensor_file_metadata(file, "format", format, sizeof format) && strcmp(format, FORMAT) == 0;
    for (size_t i = 0; i < NUMBER_COUNT && valid; i++) {
        valid = read_number(file, NUMBERS[i].key, NUMBERS[i].may_lack, (char *)&stored + NUMBERS[i].field);
    }
    if (!valid) {
        return pock_fail(error, POCK_BAD_DATA, "%s is not a checkpoint of a training run; weights are given with --load",
                         file->path);
    }
    if (memcmp(&stored.eval_share, &position->eval_share, sizeof stored.eval_share) != 0 ||
        stored.eval_seed != position->eval_seed) {
        return pock_fail(error, POCK_BAD_DATA, "%s was made with other samples held out; give the same --eval-share and --eval-seed",
                         file->path);
    }
    if (stored.samples != position->samples) {
        return pock_fail(error, POCK_BAD_DATA, "%s was made with a dataset of %" PRIu64 " samples, this one has %" PRIu64,
                         file->path, stored.samples, position->samples);
    }
    if (stored.step_samples != position->step_samples || stored.last_batch != position->last_batch) {
        return pock_fail(error, POCK_BAD_DATA, "%s was made by a model with another batch, accumulate or last_batch",
                         file->path);
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

/* The tensors of a checkpoint that are best weights, moved to the front; their number. The names lose the prefix. */
static size_t pick_best(pock_tensor_file *file) {
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++) {
        if (strncmp(file->tensors[i].name, BEST, strlen(BEST)) == 0) {
            file->tensors[count] = file->tensors[i];
            file->tensors[count++].name += strlen(BEST);
        }
    }
    return count;
}

/* The best weights are those of all trained parameters and nothing else. */
static int check_best(const pock_model *model, const pock_tensor_file *file, pock_error *error) {
    size_t trained = 0;
    int code = POCK_OK;
    for (uint32_t i = 0; i < model->param_count && !code; i++) {
        const pock_tensor *param = &model->params[i];
        const pock_stored *stored = param->trained ? pock_tensor_file_find(file, param->name) : NULL;
        trained += param->trained;
        code = stored ? pock_tensor_file_fits(file, stored, param, error) : POCK_OK;
        if (param->trained && !stored) {
            code = pock_fail(error, POCK_BAD_DATA, "%s lacks '" BEST "%s': it is damaged", file->path, param->name);
        }
    }
    if (!code && trained != file->count) {
        code = pock_fail(error, POCK_BAD_DATA, "%s holds best weights of another model", file->path);
    }
    return code;
}

/* Writes the best weights that a checkpoint holds to their own file. Ends the use of the checkpoint's other tensors. */
static int extract_best(const pock_model *model, pock_tensor_file *file, const char *best, pock_error *error) {
    pock_tensor_writer writer = {0};
    char *names = NULL;
    file->count = pick_best(file);
    if (!file->count) {
        return pock_fail(error, POCK_BAD_DATA,
                         "%s holds no best weights: the run that made it was not given --patience and --save", file->path);
    }
    int code = check_best(model, file, error);
    pock_entry *entries = code ? NULL : calloc(file->count, sizeof *entries);
    code = code ? code : entries ? list_file(entries, file, "", &names, error)
                       : pock_fail(error, POCK_MEMORY, "out of memory copying %s", file->path);
    code = code ? code : pock_tensor_writer_open(&writer, best, entries, file->count, NULL, error);
    code = code ? code : copy_tensors(&writer, 0, file, error);
    code = code ? code : pock_tensor_writer_commit(&writer, error);
    pock_tensor_writer_abandon(&writer);
    free(entries);
    free(names);
    return code;
}

int pock_checkpoint_load(pock_machine *machine, const char *path, pock_position *position, const char *best,
                         pock_error *error) {
    pock_tensor_file file = {0};
    int code = pock_tensor_file_open(&file, path, error);
    code = code ? code : read_tensors(machine, &file, 1, error);
    code = code ? code : read_position(&file, position, error);
    code = code ? code : pock_machine_fetch(machine, error);
    code = code ? code : read_tensors(machine, &file, 0, error);
    pock_machine_changed(machine);
    if (!code && best && position->best_step) {
        code = extract_best(machine->model, &file, best, error);
    }
    pock_tensor_file_close(&file);
    return code;
}
