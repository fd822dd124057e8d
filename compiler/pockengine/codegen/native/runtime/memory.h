/* A model in memory: its five blocks, each allocated once, filled from the weights files. */
#ifndef POCK_MEMORY_H
#define POCK_MEMORY_H

#include "device.h"
#include "error.h"
#include "pock.h"
#include "threads.h"

typedef struct {
    const pock_model *model;
    char *space[POCK_SPACES];
    char *own_inputs; /* space[POCK_INPUT], unless it is the device's other stage of inputs */
    size_t mapped[POCK_SPACES];
    pock_pool *pool;
    pock_device *device;
    struct pock_tables *tables; /* NULL where no parameter's contents stay in the file */
    uint32_t threads;
    int ahead; /* the inputs of the next run are at the device, or on their way there */
} pock_machine;

/* Allocates, reads parameters and constants, initialises optimizer state, starts the threads. `threads` 0 means as many as
 * the model allows and the machine has. Start with all zero; close also after a failure. */
int pock_machine_open(pock_machine *machine, const pock_model *model, const char *params_path, const char *consts_path,
                      uint32_t threads, pock_error *error);
void pock_machine_close(pock_machine *machine);

/* Replaces parameters by those in a file, which may be a part of them; their moving averages start again from there. */
int pock_machine_load(pock_machine *machine, const char *path, pock_error *error);

/* Writes all parameters, or only those that training changes; those with a moving average as averaged. */
int pock_machine_save(const pock_machine *machine, const char *path, int only_trained, pock_error *error);

/* Refuses new contents of a frozen tensor when constants derived from it were compiled in, and of one whose contents stay in
 * the weights file. */
int pock_machine_may_replace(const pock_machine *machine, const pock_tensor *tensor, const void *data,
                             pock_error *error);

/* Runs a program on the current contents of the input block; fails only where a table's rows cannot be read. */
int pock_machine_run(pock_machine *machine, const pock_program *program, pock_observer observer, void *context,
                     pock_error *error);

/* The same in two parts: after `begin` has not failed, `end` waits for the results. Between them, `turn` makes the input block
 * another one, whose contents are the next run's, if it says that there is one; `ahead` says that it is filled, and `forget`
 * that it will be filled again. */
int pock_machine_begin(pock_machine *machine, const pock_program *program, pock_observer observer, void *context,
                       pock_error *error);
int pock_machine_end(pock_machine *machine, pock_error *error);
int pock_machine_turn(pock_machine *machine);
int pock_machine_ahead(pock_machine *machine, pock_error *error);
void pock_machine_forget(pock_machine *machine);

/* Parameters and state may lie on a device. Whoever reads or changes them fetches them before, and says after a change that
 * there was one. */
int pock_machine_fetch(const pock_machine *machine, pock_error *error);
void pock_machine_changed(const pock_machine *machine);

/* Puts a packed tensor into the original order, and back: whoever reads or writes its contents does it in between. */
void pock_machine_unpack(const pock_machine *machine, const pock_tensor *tensor);
void pock_machine_pack(const pock_machine *machine, const pock_tensor *tensor);

/* Copies a part of a parameter or state as it is in memory, or in the weights file. */
int pock_machine_read(const pock_machine *machine, const pock_tensor *tensor, void *data, size_t bytes, uint64_t offset,
                      pock_error *error);

/* Where a tensor in memory lies. */
void *pock_machine_at(const pock_machine *machine, const pock_tensor *tensor);

/* The parameter's moving average where it has one, otherwise the parameter. */
const pock_tensor *pock_machine_averaged(const pock_machine *machine, const pock_tensor *param);

/* The output called `name` of a program, or NULL. */
const pock_tensor *pock_program_output(const pock_program *program, const char *name);

/* Batches that one training step takes. */
uint32_t pock_micro_batches(const pock_model *model);

#endif
