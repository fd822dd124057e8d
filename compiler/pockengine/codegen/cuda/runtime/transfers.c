/* A model's blocks on the GPU: one allocation that they are copied to and from, or the processor's own memory. What is
 * offloaded stays in the latter, where kernels read and write it. */
#include "platform.h"

#include "gpu.h"

#define ALIGNMENT ((size_t)4096)

static size_t rounded(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* The processor's blocks, pinned; the GPU uses them where memory is shared. */
static CUresult pin(pock_device *device, int space) {
    CUresult result = device->cu.cuMemHostRegister(device->space[space], device->bytes[space], CU_MEMHOSTREGISTER_DEVICEMAP);
    device->registered[space] = result == CUDA_SUCCESS;
    return result;
}

static CUresult share_block(pock_device *device, int space) {
    CUresult result = pin(device, space);
    return result ? result : device->cu.cuMemHostGetDevicePointer(&device->base[space], device->space[space], 0);
}

static CUresult share(pock_device *device) {
    CUresult result = CUDA_SUCCESS;
    for (int space = 0; space < POCK_SPACES && !result; space++) {
        result = share_block(device, space);
    }
    return result;
}

/* One allocation, with a place for inputs that wait where that leaves it possible. */
static CUresult allocate(pock_device *device, size_t needed, size_t available) {
    size_t place = rounded(device->bytes[POCK_INPUT]);
    int waiting = needed + place <= available;
    CUresult result = device->cu.cuMemAlloc(&device->memory, needed + (waiting ? place : 0));
    CUdeviceptr at = device->memory;
    for (int space = 0; space < POCK_HOST; space++) {
        device->base[space] = at;
        at += rounded(device->bytes[space]);
    }
    int pinned = pin(device, POCK_INPUT) == CUDA_SUCCESS; /* copies of inputs are quicker then, and work without */
    if (!result && waiting && pinned) {
        pock_gpu_open_inputs(device, at);
    }
    device->newer_here = 1;
    return result;
}

/* What is offloaded, where the GPU reaches it. */
static int offload(pock_device *device, pock_error *error) {
    uint64_t bytes = device->model->space_bytes[POCK_HOST];
    CUresult result = bytes ? share_block(device, POCK_HOST) : CUDA_SUCCESS;
    if (result) {
        return pock_fail(error, POCK_MEMORY, "'%s' offloads %.1f MB, which the driver does not pin in this machine's memory: %s; "
                                             "end other programs, or offload less", device->model->name,
                         (double)bytes / 1e6, pock_gpu_text(device, result));
    }
    if (bytes) {
        pock_gpu_open_aside(device, &device->copies); /* without one they take longer */
    }
    return POCK_OK;
}

int pock_gpu_take_memory(pock_device *device, pock_error *error) {
    size_t available = 0, total = 0, needed = 0;
    for (int space = 0; space < POCK_HOST; space++) {
        needed += rounded(device->bytes[space]);
    }
    device->cu.cuMemGetInfo(&available, &total);
    if (!device->shares && needed > available) {
        return pock_fail(error, POCK_MEMORY, "'%s' needs %.1f MB, %s has %.1f of %.1f MB left: end other programs, or "
                                             "compile with a smaller batch or update", device->model->name,
                         (double)needed / 1e6, device->name, (double)available / 1e6, (double)total / 1e6);
    }
    CUresult result = device->shares ? share(device) : allocate(device, needed, available);
    if (result) {
        return pock_fail(error, POCK_MEMORY, "%s does not take the model's %.1f MB: %s", device->name,
                         (double)needed / 1e6, pock_gpu_text(device, result));
    }
    return device->shares ? POCK_OK : offload(device, error);
}

void pock_gpu_give_memory(pock_device *device) {
    pock_gpu_close_aside(device, &device->copies);
    pock_gpu_close_inputs(device);
    pock_gpu_close_others(device);
    for (int space = 0; space < POCK_SPACES; space++) {
        if (device->registered[space]) {
            device->cu.cuMemHostUnregister(device->space[space]);
        }
    }
    if (device->memory) {
        device->cu.cuMemFree(device->memory);
    }
}

static void to_gpu(pock_device *device, int space) {
    if (device->model->space_bytes[space]) {
        pock_gpu_note(device, device->cu.cuMemcpyHtoDAsync(device->base[space], device->space[space],
                                                           (size_t)device->model->space_bytes[space], device->stream),
                      "copying to the GPU");
    }
}

static void from_gpu(pock_device *device, const pock_tensor *tensor) {
    uint64_t offset = tensor->ref.offset;
    if (tensor->ref.space < POCK_HOST) {
        char *to = device->space[tensor->ref.space] + (size_t)offset;
        pock_gpu_note(device, device->cu.cuMemcpyDtoHAsync(to, device->base[tensor->ref.space] + offset,
                                                           (size_t)tensor->nbytes, device->stream),
                      "copying from the GPU");
    }
}

void pock_gpu_send(pock_device *device) {
    pock_gpu_follow(device);
    if (!device->shares) {
        pock_gpu_send_inputs(device);
        pock_gpu_send_changed(device);
    }
    pock_gpu_take_given(device);
}

void pock_gpu_send_changed(pock_device *device) {
    if (device->newer_here) {
        to_gpu(device, POCK_PARAM);
        to_gpu(device, POCK_STATE);
        to_gpu(device, POCK_CONST);
        device->newer_here = 0;
    }
}

void pock_gpu_receive(pock_device *device, const pock_program *program) {
    for (uint32_t i = 0; i < program->output_count && !device->shares && !device->others.keeps; i++) {
        from_gpu(device, &program->outputs[i]);
    }
    device->others.keeps = 0;
    device->newer_there = 1;
}

int pock_device_fetch(pock_device *device, pock_error *error) {
    const pock_model *model = device->model;
    if (device->shares || !device->newer_there) {
        return POCK_OK;
    }
    pock_gpu_note(device, device->cu.cuCtxSetCurrent(device->context), "choosing the GPU");
    for (uint32_t i = 0; i < model->param_count; i++) {
        if (model->params[i].trained) {
            from_gpu(device, &model->params[i]);
        }
    }
    for (uint32_t i = 0; i < model->state_count; i++) {
        from_gpu(device, &model->states[i]);
    }
    pock_gpu_note(device, device->cu.cuStreamSynchronize(device->stream), "copying from the GPU");
    int code = pock_gpu_report(device, error);
    device->newer_there = code != POCK_OK;
    return code;
}

void pock_device_changed(pock_device *device) {
    device->newer_here = 1;
}
