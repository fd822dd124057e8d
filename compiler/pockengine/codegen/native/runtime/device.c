/* Kernels run on this processor. */
#include "device.h"

int pock_device_open(pock_device **device, const pock_model *model, char *const space[POCK_SPACES],
                     const size_t bytes[POCK_SPACES], pock_error *error) {
    (void)model;
    (void)space;
    (void)bytes;
    (void)error;
    *device = NULL;
    return POCK_OK;
}

void pock_device_close(pock_device *device) {
    (void)device;
}

int pock_device_begin(pock_device *device, const pock_program *program, int observed) {
    (void)device;
    (void)program;
    (void)observed;
    return 1;
}

void pock_device_start(pock_device *device, const pock_program *program) {
    (void)device;
    (void)program;
}

int pock_device_end(pock_device *device, pock_error *error) {
    (void)device;
    (void)error;
    return POCK_OK;
}

int pock_device_fetch(pock_device *device, pock_error *error) {
    (void)device;
    (void)error;
    return POCK_OK;
}

void pock_device_changed(pock_device *device) {
    (void)device;
}
