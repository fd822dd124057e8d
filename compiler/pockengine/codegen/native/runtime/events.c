/* Kernels are timed where they are called. */
#include "device.h"

double pock_device_call_ms(const pock_device *device, uint32_t call) {
    (void)device;
    (void)call;
    return -1;
}
