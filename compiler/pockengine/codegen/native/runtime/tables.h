/* Tables that stay in the weights file: frozen parameters of which a batch names the rows to read.
 * Their contents cannot be replaced. */
#ifndef POCK_TABLES_H
#define POCK_TABLES_H

#include "memory.h"
#include "tensor_file.h"

/* Where the contents of a streamed table begin. */
typedef struct pock_table {
    int open, descriptor;
    uint64_t begin;
} pock_table;

int pock_tables_open(pock_machine *machine, const char *path, pock_error *error);
void pock_tables_close(pock_machine *machine);

/* Puts the rows that the input block names into it. */
int pock_tables_fetch(const pock_machine *machine, pock_error *error);

int pock_is_table(const pock_tensor *tensor);
int pock_table_read(const pock_machine *machine, const pock_tensor *tensor, void *data, size_t bytes, uint64_t offset,
                    pock_error *error);

#endif
