#include "platform.h"

#include "tables.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "batch.h"
#include "rounded.h"

int pock_stays_in_file(const pock_tensor *tensor) {
    return tensor->ref.space == POCK_FILE || tensor->rounded;
}

static size_t number_of(const pock_machine *machine, const pock_tensor *tensor) {
    return (size_t)(tensor - machine->model->params);
}

int pock_table_read(const pock_machine *machine, const pock_tensor *tensor, void *data, size_t bytes, uint64_t offset,
                    pock_error *error) {
    const pock_tables *tables = machine->tables;
    return pock_file_read(tables->descriptor, tensor->name, data, bytes,
                          tables->begin[number_of(machine, tensor)] + offset, error);
}

size_t pock_piece_at(const pock_tensor *tensor, uint64_t at) {
    return tensor->nbytes - at < POCK_PIECE ? (size_t)(tensor->nbytes - at) : POCK_PIECE;
}

/* Reads a weight to memory, rounded piece by piece to keep the promised memory. */
static int read_rounded(const pock_machine *machine, const pock_tensor *tensor, pock_error *error) {
    float piece[POCK_PIECE / sizeof(float)];
    uint16_t *to = pock_machine_at(machine, tensor);
    int code = POCK_OK;
    for (uint64_t at = 0; at < tensor->nbytes && !code; at += POCK_PIECE) {
        size_t bytes = pock_piece_at(tensor, at);
        code = pock_table_read(machine, tensor, piece, bytes, at, error);
        if (!code) {
            pock_round(to + (size_t)at / sizeof(float), tensor->rounded, piece, bytes / sizeof(float));
        }
    }
    return code;
}

static int find(const pock_machine *machine, const pock_tensor_file *file, const pock_tensor *tensor, pock_error *error) {
    const pock_stored *stored = pock_tensor_file_find(file, tensor->name);
    if (!stored) {
        return pock_fail(error, POCK_BAD_DATA, "%s lacks '%s'%s", file->path, tensor->name,
                         pock_nearest(tensor->name, pock_stored_at, file->tensors, file->count).text);
    }
    machine->tables->begin[number_of(machine, tensor)] = stored->begin;
    return pock_tensor_file_fits(file, stored, tensor, error);
}

static int open_file(pock_machine *machine, const char *path, pock_error *error) {
    const pock_model *model = machine->model;
    pock_tables *tables = machine->tables;
    pock_tensor_file file = {0};
    int code = pock_tensor_file_open(&file, path, error);
    for (uint32_t i = 0; i < model->param_count && !code; i++) {
        code = pock_stays_in_file(&model->params[i]) ? find(machine, &file, &model->params[i], error) : POCK_OK;
    }
    if (!code) {
        tables->descriptor = fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0);
        tables->open = tables->descriptor >= 0;
        code = tables->open ? POCK_OK : pock_fail(error, POCK_IO, "%s cannot be kept open: too many files are", path);
    }
    pock_tensor_file_close(&file);
    return code;
}

int pock_tables_open(pock_machine *machine, const char *path, pock_error *error) {
    const pock_model *model = machine->model;
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->param_count; i++) {
        count += (uint32_t)pock_stays_in_file(&model->params[i]);
    }
    if (!count) {
        return POCK_OK;
    }
    pock_tables *tables = machine->tables = calloc(1, sizeof *tables + model->param_count * sizeof *tables->begin);
    if (!tables) {
        return pock_fail(error, POCK_MEMORY, "out of memory opening %s", path);
    }
    int code = open_file(machine, path, error);
    for (uint32_t i = 0; i < model->param_count && !code; i++) {
        code = model->params[i].rounded ? read_rounded(machine, &model->params[i], error) : POCK_OK;
    }
    return code;
}

void pock_tables_close(pock_machine *machine) {
    pock_tables *tables = machine->tables;
    if (tables && tables->open) {
        close(tables->descriptor);
    }
    free(tables);
}

/* Indices as the gather kernel takes them: counted from the end when negative, and kept inside. */
static uint64_t row_at(const void *indices, uint8_t dtype, size_t position, int64_t rows) {
    int64_t given = pock_integer_at(indices, dtype, position);
    int64_t wrapped = given < 0 ? given + rows : given;
    return (uint64_t)(wrapped < 0 ? 0 : wrapped < rows ? wrapped : rows - 1);
}

int pock_tables_fetch(const pock_machine *machine, pock_error *error) {
    int code = POCK_OK;
    for (uint32_t i = 0; i < machine->model->streamed_count; i++) {
        const pock_streamed *one = &machine->model->streamed[i];
        const void *indices = machine->space[one->indices.space] + (size_t)one->indices.offset;
        char *to = machine->space[one->rows.space] + (size_t)one->rows.offset;
        size_t bytes = (size_t)one->table->nbytes / (size_t)one->table->shape[0];
        for (size_t at = 0; at < one->count && !code; at++) {
            uint64_t row = row_at(indices, one->dtype, at, one->table->shape[0]);
            code = pock_table_read(machine, one->table, to + at * bytes, bytes, row * bytes, error);
        }
    }
    return code;
}
