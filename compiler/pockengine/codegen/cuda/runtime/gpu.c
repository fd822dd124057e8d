/* Finds the driver and a GPU, and says in one sentence what is missing. */
#include "platform.h"

#include "gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "launch.h"

/* The first driver that loads machine code of a compiler of CUDA 12 on GPUs of its generation. */
#define LEAST_DRIVER 12000

static int load(pock_device *device, pock_error *error) {
    device->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!device->library) {
        return pock_fail(error, POCK_FAILED, "there is no CUDA driver here: libcuda.so.1 is not found; install NVIDIA's "
                                             "driver (on a Jetson: JetPack 6)");
    }
#define FIND(function, name, parameters) \
    *(void **)(&device->cu.function) = dlsym(device->library, name); \
    if (!device->cu.function) { \
        return pock_fail(error, POCK_FAILED, "the CUDA driver lacks " name ": update NVIDIA's driver (on a Jetson: JetPack 6)"); \
    }
    POCK_CUDA_FUNCTIONS(FIND)
    return POCK_OK;
}

static int version(const pock_device *device, pock_error *error) {
    int found = 0;
    device->cu.cuDriverGetVersion(&found);
    if (found < LEAST_DRIVER) {
        return pock_fail(error, POCK_FAILED, "the CUDA driver is of version %d.%d, the kernels need 12.0: update NVIDIA's "
                                             "driver (on a Jetson: JetPack 6)", found / 1000, found % 1000 / 10);
    }
    return POCK_OK;
}

static int attribute(const pock_device *device, int what) {
    int value = 0;
    return device->cu.cuDeviceGetAttribute(&value, what, device->id) == CUDA_SUCCESS ? value : 0;
}

/* A GPU runs code for itself, and for older ones of its generation; those of boards only for themselves (CUDA C++ programming
 * guide 12.9, "Binary compatibility"). */
static int runs_kernels(const pock_device *device, int major, int minor) {
    int exact = pock_capability_exact || attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED);
    return major == pock_capability_major && (exact ? minor == pock_capability_minor : minor >= pock_capability_minor);
}

/* The first GPU for which the kernels were compiled. */
static int choose(pock_device *device, pock_error *error) {
    int count = 0, major = 0, minor = 0;
    CUresult result = device->cu.cuInit(0);
    result = result ? result : device->cu.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NO_DEVICE) {
        return pock_fail(error, POCK_FAILED, "the CUDA driver does not start: %s", pock_gpu_text(device, result));
    }
    for (int i = 0; i < count; i++) {
        if (device->cu.cuDeviceGet(&device->id, i) == CUDA_SUCCESS) {
            major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
            minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
            device->cu.cuDeviceGetName(device->name, sizeof device->name - 1, device->id);
            if (runs_kernels(device, major, minor)) {
                return POCK_OK;
            }
        }
    }
    if (!device->name[0]) {
        return pock_fail(error, POCK_FAILED, "the CUDA driver is here, but no GPU: see what `nvidia-smi` lists");
    }
    return pock_fail(error, POCK_FAILED, "%s has compute capability %d.%d, '%s' was compiled for %d.%d: compile it with "
                                         "--target sm_%d%d", device->name, major, minor, device->model->name,
                     pock_capability_major, pock_capability_minor, major, minor);
}

int pock_gpu_open(pock_device *device, pock_error *error) {
    int code = load(device, error);
    code = code ? code : version(device, error);
    code = code ? code : choose(device, error);
    if (code) {
        return code;
    }
    CUresult result = device->cu.cuDevicePrimaryCtxRetain(&device->context, device->id);
    result = result ? result : device->cu.cuCtxSetCurrent(device->context);
    result = result ? result : device->cu.cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING);
    if (result) {
        return pock_fail(error, POCK_FAILED, "%s cannot be used: %s", device->name, pock_gpu_text(device, result));
    }
    device->shares = attribute(device, CU_DEVICE_ATTRIBUTE_INTEGRATED) &&
                     attribute(device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED);
    return POCK_OK;
}

const char *pock_gpu_text(const pock_device *device, CUresult result) {
    const char *text = NULL;
    return device->cu.cuGetErrorString(result, &text) == CUDA_SUCCESS && text ? text : "unknown error";
}

void pock_gpu_note(pock_device *device, CUresult result, const char *what) {
    if (result != CUDA_SUCCESS && device->failure == CUDA_SUCCESS) {
        device->failure = result;
        device->failed = what;
    }
}

int pock_gpu_report(pock_device *device, pock_error *error) {
    CUresult result = device->failure;
    device->failure = CUDA_SUCCESS;
    return result == CUDA_SUCCESS
               ? POCK_OK
               : pock_fail(error, POCK_FAILED, "%s failed (%s, %s): the step's results are lost; resume from the last "
                                               "checkpoint", device->name, pock_gpu_text(device, result), device->failed);
}

CUresult pock_gpu_open_aside(pock_device *device, pock_aside *aside) {
    CUresult result = device->cu.cuStreamCreate(&aside->stream, CU_STREAM_NON_BLOCKING);
    result = result ? result : device->cu.cuEventCreate(&aside->copied, CU_EVENT_DISABLE_TIMING);
    result = result ? result : device->cu.cuEventCreate(&aside->reached, CU_EVENT_DISABLE_TIMING);
    if (result) {
        pock_gpu_close_aside(device, aside);
    }
    return result;
}

void pock_gpu_close_aside(pock_device *device, pock_aside *aside) {
    CUevent events[] = {aside->copied, aside->reached};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        if (events[i]) {
            device->cu.cuEventDestroy(events[i]);
        }
    }
    if (aside->stream) {
        device->cu.cuStreamDestroy(aside->stream);
    }
    *aside = (pock_aside){0};
}
