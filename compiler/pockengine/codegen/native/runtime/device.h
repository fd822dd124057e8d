/* The machine on which kernels run. It is this processor, unless a backend links a file of its own in the place of
 * device.c: the table's kernels then only hand work to that machine. inputs.c (turn, ahead, forget), events.c (call_ms) and
 * places.c (place, has, bring, give, forget_given, keep) may have others in their place, too. */
#ifndef POCK_DEVICE_H
#define POCK_DEVICE_H

#include "error.h"
#include "pock.h"

typedef struct pock_device pock_device;
struct pock_place; /* of model.h */

/* Makes a model's blocks the device's, too: `bytes` of each are mapped at `space`. NULL in `*device` where that is not
 * needed. Close also after a failure. */
int pock_device_open(pock_device **device, const pock_model *model, char *const space[POCK_SPACES],
                     const size_t bytes[POCK_SPACES], pock_error *error);
void pock_device_close(pock_device *device);

/* Between these a program runs. Begin takes the inputs, and says whether the program's kernels are to be called: a device
 * that knows them from an earlier run needs no calls. `observed`: each kernel ends before the next begins, so that it can be
 * timed, or the device times it. After the calls start lets the kernels run; after end the outputs are in this processor's
 * blocks. */
int pock_device_begin(pock_device *device, const pock_program *program, int observed);
void pock_device_start(pock_device *device, const pock_program *program);
int pock_device_end(pock_device *device, pock_error *error);

/* Between start and end: the other of two stages of inputs, which is filled for the next run, or NULL where there is one that
 * the run may still read. Ahead begins to take what is there; forget lets it be filled again. */
char *pock_device_turn(pock_device *device);
void pock_device_ahead(pock_device *device);
void pock_device_forget(pock_device *device);

/* Milliseconds that a call took in the last run, which was observed and has ended; negative where the device does not know. */
double pock_device_call_ms(const pock_device *device, uint32_t call);

/* Brings parameters and state as the programs left them into this processor's blocks; and says that this processor changed
 * those, or constants, which the next program must see. */
int pock_device_fetch(pock_device *device, pock_error *error);
void pock_device_changed(pock_device *device);

/* Where what has its place at `at` in this processor's blocks lies, with what this processor changed; from then on others may use
 * it there. */
int pock_device_place(pock_device *device, char *at, struct pock_place *place, pock_error *error);

/* Whether an input's `data` is in the device's memory instead of this processor's. Fails if it is in that of another device. */
int pock_device_has(pock_device *device, const pock_tensor *input, const void *data, int *has, pock_error *error);

/* Of what the device has: copies it to the input's place in this processor's block; or lets the next run take it. */
int pock_device_bring(pock_device *device, const pock_tensor *input, const void *data, pock_error *error);
void pock_device_give(pock_device *device, const pock_tensor *input, const void *data);
void pock_device_forget_given(pock_device *device);

/* The next run's outputs stay at the device. */
void pock_device_keep(pock_device *device);

#endif
