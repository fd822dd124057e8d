/* Copies of what is offloaded, from the processor's memory to the arena, while kernels compute. */
#include "platform.h"

#include "gpu.h"

static void record(pock_device *device, CUevent event, CUstream stream) {
    pock_gpu_note(device, device->cu.cuEventRecord(event, stream), "copying what is offloaded");
}

static void wait(pock_device *device, CUstream stream, CUevent event) {
    pock_gpu_note(device, device->cu.cuStreamWaitEvent(stream, event, 0), "copying what is offloaded");
}

void pock_gpu_reach(pock_device *device) {
    if (device->copies.stream) {
        record(device, device->copies.reached, device->stream);
    }
}

int pock_gpu_begin_copy(pock_device *device) {
    int apart = device->copies.stream && !device->observed; /* the time of each kernel is its own, if it is observed */
    if (apart) {
        wait(device, device->copies.stream, device->copies.reached);
    }
    return apart;
}

void pock_gpu_end_copy(pock_device *device) {
    record(device, device->copies.copied, device->copies.stream);
    pock_gpu_reach(device);
    wait(device, device->stream, device->copies.copied);
}
