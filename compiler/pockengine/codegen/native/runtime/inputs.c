/* There is one stage of inputs, which is read while a program runs. */
#include "device.h"

char *pock_device_turn(pock_device *device) {
    (void)device;
    return NULL;
}

void pock_device_ahead(pock_device *device) {
    (void)device;
}

void pock_device_forget(pock_device *device) {
    (void)device;
}
