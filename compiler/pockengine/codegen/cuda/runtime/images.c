/* The kernels' machine code: all of it is packed as one in the program, and unpacked only while the driver loads it. */
#include "platform.h"

#include "gpu.h"

#include <stdlib.h>

#include "launch.h"
#include "unpack.h"

/* Finds a kernel in its machine code; what it shares in a block beyond the usual is asked for. */
static CUresult find(pock_device *device, const pock_device_kernel *kernel, const void *image, uint32_t i) {
    CUresult result = device->cu.cuModuleLoadData(&device->modules[i], image);
    result = result ? result : device->cu.cuModuleGetFunction(&device->functions[i], device->modules[i], kernel->name);
    if (result == CUDA_SUCCESS && kernel->shared > POCK_USUAL_SHARED) {
        result = device->cu.cuFuncSetAttribute(device->functions[i], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                               (int)kernel->shared);
    }
    return result;
}

static int load(pock_device *device, const unsigned char *images, pock_error *error) {
    for (uint32_t i = 0; i < pock_device_kernel_count; i++) {
        const pock_device_kernel *kernel = &pock_device_kernels[i];
        CUresult result = find(device, kernel, images + kernel->image, i);
        if (result) {
            return pock_fail(error, result == CUDA_ERROR_OUT_OF_MEMORY ? POCK_MEMORY : POCK_FAILED,
                             "%s does not load the kernel %s: %s", device->name, kernel->name,
                             pock_gpu_text(device, result));
        }
    }
    return POCK_OK;
}

int pock_gpu_load_kernels(pock_device *device, pock_error *error) {
    unsigned char *images = malloc(POCK_UNPACK_SPACE + pock_device_image_bytes), *space = images;
    images = images ? images + POCK_UNPACK_SPACE : NULL;
    device->modules = calloc(pock_device_kernel_count + 1, sizeof *device->modules);
    device->functions = calloc(pock_device_kernel_count + 1, sizeof *device->functions);
    int code = POCK_OK;
    if (!images || !device->modules || !device->functions) {
        code = pock_fail(error, POCK_MEMORY, "out of memory");
    } else if (!pock_unpack(images, pock_device_image_bytes, pock_device_packed, pock_device_packed_bytes, space)) {
        code = pock_fail(error, POCK_FAILED, "this program is damaged: its kernels do not unpack; copy it again");
    }
    code = code ? code : load(device, images, error);
    free(space); /* the driver has copies */
    return code;
}

void pock_gpu_unload_kernels(pock_device *device) {
    for (uint32_t i = 0; device->modules && i < pock_device_kernel_count; i++) {
        if (device->modules[i]) {
            device->cu.cuModuleUnload(device->modules[i]);
        }
    }
}
