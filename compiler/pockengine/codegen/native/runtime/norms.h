/* Running statistics of batch norms, estimated from batches: the mean of what each batch has, as PyTorch's cumulative
 * average (a momentum of None). */
#ifndef POCK_NORMS_H
#define POCK_NORMS_H

#include "memory.h"

/* Runs the program `norms` on the contents of the input block and takes the batch in, after `done` others. */
int pock_norms_take(pock_machine *machine, uint64_t done, pock_error *error);

#endif
