/* Frozen parameters whose contents are in the weights file alone: tables of which a batch names the rows to read, and weights
 * that lie in memory rounded. Their contents cannot be replaced. */
#ifndef POCK_TABLES_H
#define POCK_TABLES_H

#include "memory.h"
#include "tensor_file.h"

/* The weights file, and where each parameter's contents begin there. */
typedef struct pock_tables {
    int open, descriptor;
    uint64_t begin[];
} pock_tables;

/* Also reads the rounded weights to memory. */
int pock_tables_open(pock_machine *machine, const char *path, pock_error *error);
void pock_tables_close(pock_machine *machine);

/* Puts the rows that the input block names into it. */
int pock_tables_fetch(const pock_machine *machine, pock_error *error);

/* What does not lie in memory as it is in files is read so many bytes at a time; of the last piece, what is left. */
#define POCK_PIECE ((size_t)8192)
size_t pock_piece_at(const pock_tensor *tensor, uint64_t at);

/* Whether it is a table or a rounded weight. */
int pock_stays_in_file(const pock_tensor *tensor);
int pock_table_read(const pock_machine *machine, const pock_tensor *tensor, void *data, size_t bytes, uint64_t offset,
                    pock_error *error);

#endif
