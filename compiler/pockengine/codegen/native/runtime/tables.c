#include "platform.h"

#include "tables.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "batch.h"

int pock_is_table(const pock_tensor *tensor) {
    return tensor->ref.space == POCK_FILE;
}

static pock_table *table_of(const pock_machine *machine, const pock_tensor *tensor) {
    uint32_t index = 0;
    while (machine->model->streamed[index].table != tensor) {
        index++;
    }
    return &machine->tables[index];
}

int pock_tables_open(pock_machine *machine, const char *path, pock_error *error) {
    const pock_model *model = machine->model;
    if (!model->streamed_count) {
        return POCK_OK;
    }
    machine->tables = calloc(model->streamed_count, sizeof *machine->tables);
    if (!machine->tables) {
        return pock_fail(error, POCK_MEMORY, "out of memory opening %s", path);
    }
    pock_tensor_file file = {0};
    int code = pock_tensor_file_open(&file, path, error);
    for (uint32_t i = 0; i < model->streamed_count && !code; i++) {
        const pock_tensor *tensor = model->streamed[i].table;
        const pock_stored *stored = pock_tensor_file_find(&file, tensor->name);
        pock_table *table = &machine->tables[i];
        code = stored ? pock_tensor_file_fits(&file, stored, tensor, error)
                      : pock_fail(error, POCK_BAD_DATA, "%s lacks '%s'", path, tensor->name);
        if (!code) {
            table->begin = stored->begin;
            table->descriptor = fcntl(file.descriptor, F_DUPFD_CLOEXEC, 0);
            table->open = table->descriptor >= 0;
            code = table->open ? POCK_OK : pock_fail(error, POCK_IO, "%s cannot be kept open: too many files are", path);
        }
    }
    pock_tensor_file_close(&file);
    return code;
}

void pock_tables_close(pock_machine *machine) {
    for (uint32_t i = 0; machine->tables && i < machine->model->streamed_count; i++) {
        if (machine->tables[i].open) {
            close(machine->tables[i].descriptor);
        }
    }
    free(machine->tables);
}

static int read_part(const pock_table *table, const pock_tensor *tensor, void *data, size_t bytes, uint64_t offset,
                     pock_error *error) {
    return pock_file_read(table->descriptor, tensor->name, data, bytes, table->begin + offset, error);
}

int pock_table_read(const pock_machine *machine, const pock_tensor *tensor, void *data, size_t bytes, uint64_t offset,
                    pock_error *error) {
    return read_part(table_of(machine, tensor), tensor, data, bytes, offset, error);
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
            code = read_part(&machine->tables[i], one->table, to + at * bytes, bytes, row * bytes, error);
        }
    }
    return code;
}
