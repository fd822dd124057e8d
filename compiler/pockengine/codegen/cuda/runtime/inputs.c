/* Inputs of the next run on their way while this one runs. */
#include "platform.h"

#include "gpu.h"

static const char *const COPYING = "copying to the GPU";

static size_t size(const pock_device *device) {
    return (size_t)device->model->space_bytes[POCK_INPUT];
}

void pock_gpu_open_inputs(pock_device *device, CUdeviceptr place) {
    pock_inputs *inputs = &device->inputs;
    void *stage = NULL;
    CUresult result = device->cu.cuMemHostAlloc(&stage, device->bytes[POCK_INPUT], 0);
    inputs->stage[0] = device->space[POCK_INPUT];
    inputs->place = place;
    result = result ? result : pock_gpu_open_aside(device, &inputs->aside);
    inputs->stage[1] = stage;
    if (result) {
        pock_gpu_close_inputs(device);
    }
}

void pock_gpu_close_inputs(pock_device *device) {
    pock_inputs *inputs = &device->inputs;
    if (inputs->stage[1]) {
        device->space[POCK_INPUT] = inputs->stage[0];
        device->cu.cuMemFreeHost(inputs->stage[1]);
    }
    pock_gpu_close_aside(device, &inputs->aside);
    *inputs = (pock_inputs){0};
}

/* The next input from byte `at` of the block on that others gave, or NULL. */
static const pock_tensor *next_given(const pock_device *device, size_t at) {
    const pock_tensor *found = NULL;
    for (uint32_t i = 0; i < device->model->input_count && device->others.any; i++) {
        const pock_tensor *input = &device->model->inputs[i];
        int nearer = input->nbytes && input->ref.offset >= at && (!found || input->ref.offset < found->ref.offset);
        found = device->others.inputs[i] && nearer ? input : found;
    }
    return found;
}

/* Queues copies of what lies between inputs that others gave: of the whole block, where they gave none. */
static void send_rest(pock_device *device) {
    for (size_t at = 0; at < size(device);) {
        const pock_tensor *given = next_given(device, at);
        size_t end = given ? (size_t)given->ref.offset : size(device);
        if (end > at) {
            pock_gpu_note(device, device->cu.cuMemcpyHtoDAsync(device->base[POCK_INPUT] + at, device->space[POCK_INPUT] + at,
                                                               end - at, device->stream), COPYING);
        }
        at = given ? end + (size_t)given->nbytes : end;
    }
}

void pock_gpu_send_inputs(pock_device *device) {
    pock_inputs *inputs = &device->inputs;
    CUdeviceptr to = device->base[POCK_INPUT];
    if (!size(device)) {
        return;
    }
    if (!inputs->ahead) {
        send_rest(device);
        return;
    }
    inputs->ahead = 0;
    pock_gpu_note(device, device->cu.cuStreamWaitEvent(device->stream, inputs->aside.copied, 0), COPYING);
    pock_gpu_note(device, device->cu.cuMemcpyDtoDAsync(to, inputs->place, size(device), device->stream), COPYING);
    pock_gpu_note(device, device->cu.cuEventRecord(inputs->aside.reached, device->stream), COPYING);
}

/* The other stage is free: the run that it was for has ended, and took it before. */
char *pock_device_turn(pock_device *device) {
    pock_inputs *inputs = &device->inputs;
    if (!inputs->stage[1] || !size(device) || device->observed || device->failure) {
        return NULL;
    }
    inputs->filled ^= 1;
    device->space[POCK_INPUT] = inputs->stage[inputs->filled];
    return device->space[POCK_INPUT];
}

void pock_device_ahead(pock_device *device) {
    pock_inputs *inputs = &device->inputs;
    pock_gpu_note(device, device->cu.cuStreamWaitEvent(inputs->aside.stream, inputs->aside.reached, 0), COPYING);
    pock_gpu_note(device, device->cu.cuMemcpyHtoDAsync(inputs->place, device->space[POCK_INPUT], size(device),
                                                       inputs->aside.stream), COPYING);
    pock_gpu_note(device, device->cu.cuEventRecord(inputs->aside.copied, inputs->aside.stream), COPYING);
    inputs->ahead = 1;
}

void pock_device_forget(pock_device *device) {
    device->inputs.ahead = 0;
    pock_gpu_note(device, device->cu.cuCtxSetCurrent(device->context), "choosing the GPU");
    pock_gpu_note(device, device->cu.cuStreamSynchronize(device->inputs.aside.stream), COPYING);
}
