#include "platform.h"

#include <string.h>

#include "json.h"
#include "tensor_file.h"

static void write_header(pock_json *json, const pock_entry *entries, size_t count, const char *metadata) {
    uint64_t at = 0;
    pock_json_open(json, NULL, '{');
    if (metadata) {
        pock_json_raw(json, "__metadata__", metadata, strlen(metadata));
    }
    for (size_t i = 0; i < count; i++) {
        pock_json_open(json, entries[i].name, '{');
        pock_json_string(json, "dtype", pock_dtype_name(entries[i].dtype));
        pock_json_shape(json, "shape", entries[i].shape, entries[i].rank);
        pock_json_open(json, "data_offsets", '[');
        pock_json_integer(json, NULL, at);
        at += entries[i].nbytes;
        pock_json_integer(json, NULL, at);
        pock_json_close(json, ']');
        pock_json_close(json, '}');
    }
    pock_json_close(json, '}');
}

/* The header is padded with spaces so that the tensors start at a multiple of eight. */
static int put_header(pock_tensor_writer *writer, const pock_json *header, pock_error *error) {
    static const char spaces[] = "       ";
    uint64_t padded = (header->length + 7) / 8 * 8;
    writer->data_begin = 8 + padded;
    int code = pock_output_write(&writer->output, &padded, 8, 0, error);
    code = code ? code : pock_output_write(&writer->output, header->text, header->length, 8, error);
    return code ? code
                : pock_output_write(&writer->output, spaces, (size_t)padded - header->length, 8 + header->length, error);
}

static int put_given(pock_tensor_writer *writer, const pock_entry *entries, size_t count, pock_error *error) {
    uint64_t at = 0;
    int code = POCK_OK;
    for (size_t i = 0; i < count && !code; i++) {
        if (entries[i].data) {
            code = pock_tensor_writer_put(writer, at, entries[i].data, (size_t)entries[i].nbytes, error);
        }
        at += entries[i].nbytes;
    }
    return code;
}

int pock_tensor_writer_open(pock_tensor_writer *writer, const char *path, const pock_entry *entries, size_t count,
                            const char *metadata, pock_error *error) {
    pock_json header = {0};
    write_header(&header, entries, count, metadata);
    int code = header.failed ? pock_fail(error, POCK_MEMORY, "out of memory writing %s", path)
                             : pock_output_open(&writer->output, path, error);
    code = code ? code : put_header(writer, &header, error);
    code = code ? code : put_given(writer, entries, count, error);
    pock_json_free(&header);
    if (code) {
        pock_tensor_writer_abandon(writer);
    }
    return code;
}

int pock_tensor_writer_put(pock_tensor_writer *writer, uint64_t offset, const void *data, size_t bytes,
                           pock_error *error) {
    return pock_output_write(&writer->output, data, bytes, writer->data_begin + offset, error);
}

int pock_tensor_writer_commit(pock_tensor_writer *writer, pock_error *error) {
    int code = pock_output_commit(&writer->output, error);
    if (code) {
        pock_tensor_writer_abandon(writer);
    }
    return code;
}

void pock_tensor_writer_abandon(pock_tensor_writer *writer) {
    pock_output_abandon(&writer->output);
}

int pock_tensor_file_write(const char *path, const pock_entry *entries, size_t count, const char *metadata,
                           pock_error *error) {
    pock_tensor_writer writer = {0};
    int code = pock_tensor_writer_open(&writer, path, entries, count, metadata, error);
    return code ? code : pock_tensor_writer_commit(&writer, error);
}
