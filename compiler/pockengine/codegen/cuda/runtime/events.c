/* What the GPU itself says of how long kernels take: events before and after each. */
#include "platform.h"

#include "gpu.h"

#include <stdlib.h>

#define NOT_KNOWN (-1.0)

int pock_gpu_watch(pock_device *device, uint32_t calls) {
    pock_watch *watch = &device->watch;
    watch->called = 0;
    if (watch->events && calls <= watch->calls) {
        return 1;
    }
    pock_gpu_unwatch(device);
    watch->events = calloc(2 * (size_t)calls + 1, sizeof *watch->events);
    for (size_t i = 0; watch->events && i < 2 * (size_t)calls; i++) {
        pock_gpu_note(device, device->cu.cuEventCreate(&watch->events[i], CU_EVENT_DEFAULT), "timing the kernels");
    }
    watch->calls = watch->events ? calls : 0;
    return watch->events != NULL;
}

void pock_gpu_unwatch(pock_device *device) {
    for (size_t i = 0; i < 2 * (size_t)device->watch.calls; i++) {
        if (device->watch.events[i]) {
            device->cu.cuEventDestroy(device->watch.events[i]);
        }
    }
    free(device->watch.events);
    device->watch = (pock_watch){0};
}

void pock_gpu_mark(pock_device *device, int after) {
    pock_watch *watch = &device->watch;
    if (device->observed && watch->called < watch->calls) {
        size_t event = 2 * (size_t)watch->called + (after ? 1 : 0);
        pock_gpu_note(device, device->cu.cuEventRecord(watch->events[event], device->stream), "timing the kernels");
        watch->called += after ? 1 : 0;
    }
}

double pock_device_call_ms(const pock_device *device, uint32_t call) {
    const pock_watch *watch = &device->watch;
    float ms = 0;
    int known = call < watch->called &&
                device->cu.cuEventElapsedTime(&ms, watch->events[2 * (size_t)call], watch->events[2 * (size_t)call + 1]) ==
                    CUDA_SUCCESS;
    return known ? (double)ms : NOT_KNOWN;
}
