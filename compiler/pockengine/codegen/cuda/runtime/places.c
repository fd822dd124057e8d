/* The GPU's memory in the hands of others: where they find what a program reads and writes, and inputs that they have there. */
#include "platform.h"

#include "gpu.h"

#include <stdlib.h>

#include "model.h"

static const char *const TAKING = "taking tensors of others";

static CUdeviceptr at_gpu(const void *data) {
    return (CUdeviceptr)(uintptr_t)data;
}

static CUdeviceptr place_of(const pock_device *device, const pock_tensor *input) {
    return device->base[POCK_INPUT] + input->ref.offset;
}

void pock_gpu_follow(pock_device *device) {
    CUevent *queued = &device->others.queued;
    if (!device->others.shared) {
        return;
    }
    if (!*queued) {
        pock_gpu_note(device, device->cu.cuEventCreate(queued, CU_EVENT_DISABLE_TIMING), TAKING);
    }
    if (*queued) {
        pock_gpu_note(device, device->cu.cuEventRecord(*queued, CU_STREAM_LEGACY), TAKING);
        pock_gpu_note(device, device->cu.cuStreamWaitEvent(device->stream, *queued, 0), TAKING);
    }
}

static int finish(pock_device *device, pock_error *error) {
    pock_gpu_note(device, device->cu.cuStreamSynchronize(device->stream), TAKING);
    return pock_gpu_report(device, error);
}

int pock_device_place(pock_device *device, char *at, struct pock_place *place, pock_error *error) {
    int space = pock_gpu_space(device, at);
    void *there = (void *)(uintptr_t)pock_gpu_place(device, at);
    *place = (pock_place){device->shares || space == POCK_HOST ? at : NULL, there, device->id};
    device->others.shared = 1;
    pock_gpu_note(device, device->cu.cuCtxSetCurrent(device->context), TAKING);
    pock_gpu_follow(device);
    if (!device->shares) {
        pock_gpu_send_changed(device);
    }
    return finish(device, error);
}

int pock_device_has(pock_device *device, const pock_tensor *input, const void *data, int *has, pock_error *error) {
    int type = 0, ordinal = device->id;
    pock_gpu_note(device, device->cu.cuCtxSetCurrent(device->context), TAKING);
    CUresult known = device->cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at_gpu(data));
    CUdeviceptr block = device->base[POCK_INPUT], end = block + device->model->space_bytes[POCK_INPUT];
    if (at_gpu(data) >= block && at_gpu(data) < end && at_gpu(data) != place_of(device, input)) {
        return pock_fail(error, POCK_USAGE, "'%s' in the batch lies in the place of another input, or beyond its own: copy it "
                                            "first", input->name);
    }
    *has = at_gpu(data) == place_of(device, input) || (known == CUDA_SUCCESS && type == CU_MEMORYTYPE_DEVICE);
    if (*has && known == CUDA_SUCCESS) {
        device->cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at_gpu(data));
    }
    return ordinal == device->id ? POCK_OK
                                 : pock_fail(error, POCK_USAGE, "'%s' in the batch lies on GPU %d, this session is on GPU %d: "
                                                                "copy it there", input->name, ordinal, device->id);
}

int pock_device_bring(pock_device *device, const pock_tensor *input, const void *data, pock_error *error) {
    device->others.shared = 1;
    pock_gpu_follow(device);
    if (!device->shares || at_gpu(data) != place_of(device, input)) {
        pock_gpu_note(device, device->cu.cuMemcpyDtoHAsync(device->space[POCK_INPUT] + (size_t)input->ref.offset, at_gpu(data),
                                                           (size_t)input->nbytes, device->stream), TAKING);
    }
    return finish(device, error);
}

void pock_device_give(pock_device *device, const pock_tensor *input, const void *data) {
    pock_others *others = &device->others;
    others->shared = 1;
    if (!others->inputs) {
        others->inputs = calloc(device->model->input_count, sizeof *others->inputs);
    }
    if (others->inputs) {
        others->inputs[input - device->model->inputs] = at_gpu(data);
        others->any = 1;
    }
    pock_gpu_note(device, others->inputs ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, TAKING);
}

void pock_device_forget_given(pock_device *device) {
    for (uint32_t i = 0; i < device->model->input_count && device->others.any; i++) {
        device->others.inputs[i] = 0;
    }
    device->others.any = 0;
}

void pock_device_keep(pock_device *device) {
    device->others.keeps = 1;
}

void pock_gpu_take_given(pock_device *device) {
    pock_others *others = &device->others;
    for (uint32_t i = 0; i < device->model->input_count && others->any; i++) {
        const pock_tensor *input = &device->model->inputs[i];
        CUdeviceptr to = place_of(device, input), from = others->inputs[i];
        others->inputs[i] = 0;
        if (from && from != to) {
            pock_gpu_note(device, device->cu.cuMemcpyDtoDAsync(to, from, (size_t)input->nbytes, device->stream), TAKING);
        }
    }
    others->any = 0;
}

void pock_gpu_close_others(pock_device *device) {
    if (device->others.queued) {
        device->cu.cuEventDestroy(device->others.queued);
    }
    free(device->others.inputs);
    device->others = (pock_others){0};
}
