/* A CUDA driver without a GPU: its memory is its own, launches are recorded and replayed as the program says, and kernels are
 * the emulated ones of the same names. FAKE in the environment gives it a trouble. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

#define EM_CUDA 190
#define LOST 719
#define MOST_LAUNCHES 4096
#define MOST_OPERANDS 64

typedef struct {
    const char *name;
    void (*run)(void *const *arg, int task, int tasks);
    unsigned blocks, threads, operands;
} emulated;

/* Of the program under test: see driver.py. */
extern const emulated fake_kernels[];

typedef struct {
    const emulated *kernel;
    void *arg[MOST_OPERANDS];
} launch;

struct CUgraph_st {
    unsigned count;
    launch launches[MOST_LAUNCHES];
};

static struct CUgraph_st *recording;
static size_t taken;
static unsigned replays;

static int is(const char *trouble) {
    const char *has = getenv("FAKE");
    return has && strcmp(has, trouble) == 0;
}

static size_t memory(void) {
    return is("small") ? 4096 : (size_t)1 << 32;
}

CUresult cuInit(unsigned flags) {
    (void)flags;
    return is("broken") ? 999 : is("empty") ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
    *version = is("old") ? 11040 : 12040;
    return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult result, const char **text) {
    *text = result == LOST ? "unspecified launch failure" : result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "unknown";
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
    *count = 1;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    (void)device;
    snprintf(name, (size_t)bytes, "Fake GPU");
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, int what, CUdevice device) {
    (void)device;
    int integrated = is("integrated");
    *value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? (is("other") ? 7 : 8)
             : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 7
             : what == CU_DEVICE_ATTRIBUTE_INTEGRATED               ? integrated
             : what == CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED  ? 1
                                                                    : 0;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    (void)device;
    *context = (CUcontext)(uintptr_t)64;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    (void)device;
    const char *path = getenv("FAKE_LOG");
    FILE *log = path ? fopen(path, "w") : NULL;
    if (log) {
        fprintf(log, "%u %zu\n", replays, taken);
        fclose(log);
    }
    return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
    return context ? CUDA_SUCCESS : 201;
}
CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    *total = memory();
    *available = memory() - taken;
    return CUDA_SUCCESS;
}
CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t bytes) {
    void *memory_there = is("full") ? NULL : aligned_alloc(4096, bytes);
    if (!memory_there) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(memory_there, 0x5A, bytes);
    taken += bytes;
    *at = (CUdeviceptr)(uintptr_t)memory_there;
    return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr at) {
    free((void *)(uintptr_t)at);
    return CUDA_SUCCESS;
}
CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    (void)flags;
    return (uintptr_t)at % 4096 == 0 && bytes ? CUDA_SUCCESS : 1;
}
CUresult cuMemHostUnregister(void *at) {
    return at ? CUDA_SUCCESS : 1;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *there, void *at, unsigned flags) {
    (void)flags;
    *there = (CUdeviceptr)(uintptr_t)at;
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return recording ? 900 : CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return recording ? 900 : CUDA_SUCCESS;
}
CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    const unsigned char *bytes = image;
    *module = (CUmodule)(uintptr_t)image;
    return memcmp(bytes, "\177ELF", 4) == 0 && bytes[18] == EM_CUDA && !is("refuses") ? CUDA_SUCCESS : 200;
}
CUresult cuModuleUnload(CUmodule module) {
    return module ? CUDA_SUCCESS : 1;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    (void)module;
    for (const emulated *kernel = fake_kernels; kernel->name; kernel++) {
        if (strcmp(kernel->name, name) == 0) {
            *function = (CUfunction)(uintptr_t)kernel;
            return CUDA_SUCCESS;
        }
    }
    return 500;
}
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                        unsigned shared, CUstream stream, void **parameters, void **extra) {
    (void)shared;
    (void)stream;
    const emulated *kernel = (const emulated *)(const void *)function;
    launch now = {kernel, {0}};
    if (x != kernel->blocks || threads != kernel->threads || y * z * ty * tz != 1 || extra) {
        return 1;
    }
    for (unsigned i = 0; i < kernel->operands; i++) {
        memcpy(&now.arg[i], parameters[i], sizeof(CUdeviceptr));
    }
    if (recording) {
        recording->launches[recording->count++] = now;
    } else {
        kernel->run(now.arg, 0, 1);
    }
    return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    (void)flags;
    *stream = (CUstream)(uintptr_t)64;
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
    return stream ? CUDA_SUCCESS : 1;
}
CUresult cuStreamSynchronize(CUstream stream) {
    (void)stream;
    return recording ? 900 : is("lost") && replays > 1 ? LOST : CUDA_SUCCESS;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    (void)stream;
    (void)mode;
    recording = calloc(1, sizeof *recording);
    return recording ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    (void)stream;
    *graph = recording;
    recording = NULL;
    return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags) {
    (void)flags;
    void *copy = malloc(sizeof *graph);
    if (copy) {
        memcpy(copy, graph, sizeof *graph);
    }
    *exec = copy;
    return copy ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    (void)stream;
    const struct CUgraph_st *graph = (const void *)exec;
    for (unsigned i = 0; i < graph->count; i++) {
        graph->launches[i].kernel->run(graph->launches[i].arg, 0, 1);
    }
    replays++;
    return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
    free(graph);
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
    free(exec);
    return CUDA_SUCCESS;
}
