/* Kernels run on a GPU of NVIDIA's. A program's first run records its launches, and later ones replay them as one graph: all
 * operands have fixed places. */
#include "platform.h"

#include "gpu.h"

#include <stdlib.h>
#include <string.h>

#include "launch.h"

/* Kernels are started by functions without a context: the run of this thread has one. */
static _Thread_local pock_device *running;

int pock_device_open(pock_device **opened, const pock_model *model, char *const space[POCK_SPACES],
                     const size_t bytes[POCK_SPACES], pock_error *error) {
    pock_device *device = *opened = calloc(1, sizeof *device);
    if (!device) {
        return pock_fail(error, POCK_MEMORY, "out of memory");
    }
    device->model = model;
    memcpy(device->space, space, sizeof device->space);
    memcpy(device->bytes, bytes, sizeof device->bytes);
    int code = pock_gpu_open(device, error);
    code = code ? code : pock_gpu_take_memory(device, error);
    code = code ? code : pock_gpu_load_kernels(device, error);
    if (!code) {
        pock_gpu_open_library(device);
    }
    return code;
}

void pock_device_close(pock_device *device) {
    if (device && device->context) {
        device->cu.cuCtxSetCurrent(device->context);
        if (device->inputs.ahead) {
            pock_device_forget(device); /* a copy of inputs that nobody wants any more */
        }
        for (int i = 0; i < POCK_MOST_PROGRAMS; i++) {
            if (device->replays[i].exec) {
                device->cu.cuGraphExecDestroy(device->replays[i].exec);
            }
        }
        pock_gpu_unwatch(device);
        pock_gpu_close_library(device);
        pock_gpu_unload_kernels(device);
        pock_gpu_give_memory(device);
        if (device->stream) {
            device->cu.cuStreamDestroy(device->stream);
        }
        device->cu.cuDevicePrimaryCtxRelease(device->id);
    }
    if (device) {
        free(device->modules);
        free(device->functions);
    }
    free(device); /* the driver stays: it does not expect to be unloaded */
}

/* The program's place among the replays; its first free one where it was never run. */
static pock_replay *replay_of(pock_device *device, const pock_program *program) {
    int i = 0;
    while (i < POCK_MOST_PROGRAMS && device->replays[i].program && device->replays[i].program != program) {
        i++;
    }
    return i < POCK_MOST_PROGRAMS ? &device->replays[i] : NULL;
}

int pock_device_begin(pock_device *device, const pock_program *program, int observed) {
    pock_gpu_note(device, device->cu.cuCtxSetCurrent(device->context), "choosing the GPU");
    pock_gpu_send(device);
    running = device;
    device->observed = observed && pock_gpu_watch(device, program->call_count);
    pock_replay *replay = replay_of(device, program);
    if (!device->observed && replay && replay->exec) {
        return 0;
    }
    device->capturing = !device->observed && replay && device->failure == CUDA_SUCCESS;
    if (device->capturing) {
        pock_gpu_note(device, device->cu.cuStreamBeginCapture(device->stream, CU_STREAM_CAPTURE_MODE_RELAXED),
                      "recording the kernels");
    }
    pock_gpu_reach(device);
    return 1;
}

/* What was captured becomes a replay. */
static void keep(pock_device *device, pock_replay *replay, const pock_program *program) {
    CUgraph graph = NULL;
    pock_gpu_note(device, device->cu.cuStreamEndCapture(device->stream, &graph), "recording the kernels");
    if (device->failure == CUDA_SUCCESS) {
        pock_gpu_note(device, device->cu.cuGraphInstantiate(&replay->exec, graph, 0), "recording the kernels");
    }
    if (graph) {
        device->cu.cuGraphDestroy(graph);
    }
    replay->program = replay->exec ? program : NULL;
    device->capturing = 0;
}

void pock_device_start(pock_device *device, const pock_program *program) {
    pock_replay *replay = replay_of(device, program);
    if (device->capturing) {
        keep(device, replay, program);
    }
    if (!device->observed && replay && replay->exec && device->failure == CUDA_SUCCESS) {
        pock_gpu_note(device, device->cu.cuGraphLaunch(replay->exec, device->stream), "starting the kernels");
    }
    pock_gpu_receive(device, program);
    running = NULL;
}

int pock_device_end(pock_device *device, pock_error *error) {
    pock_gpu_note(device, device->cu.cuStreamSynchronize(device->stream), "waiting for the kernels");
    return pock_gpu_report(device, error);
}

int pock_gpu_space(const pock_device *device, const char *at) {
    int space = 0;
    while (space + 1 < POCK_SPACES && !(at >= device->space[space] && at < device->space[space] + device->bytes[space])) {
        space++;
    }
    return space;
}

CUdeviceptr pock_gpu_place(const pock_device *device, const char *at) {
    int space = pock_gpu_space(device, at);
    return device->base[space] + (CUdeviceptr)(at - device->space[space]);
}

/* One of the maps of a launch, whose operands have these places. */
static CUtensorMap encoded(pock_device *device, const pock_device_map *map, const CUdeviceptr *places) {
    static const uint32_t side_by_side[POCK_MOST_RANK] = {1, 1, 1, 1, 1};
    CUtensorMap made = {{0}};
    int type = map->itemsize == 1 ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : CU_TENSOR_MAP_DATA_TYPE_UINT16;
    pock_gpu_note(device, device->cu.cuTensorMapEncodeTiled(
                              &made, type, map->rank, places[map->operand] + map->offset, map->extents, map->strides, map->box,
                              side_by_side, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                  "describing an operand of a kernel");
    return made;
}

void pock_launch_mapped(uint32_t number, unsigned blocks, unsigned threads, void *const *arg, uint32_t operands,
                        const pock_device_map *maps, uint32_t count) {
    pock_device *device = running;
    CUdeviceptr places[POCK_MAX_OPERANDS];
    CUtensorMap described[POCK_MOST_MAPS];
    void *parameters[POCK_MAX_OPERANDS + POCK_MOST_MAPS];
    for (uint32_t i = 0; i < operands; i++) {
        places[i] = pock_gpu_place(device, arg[i]);
        parameters[i] = &places[i];
    }
    for (uint32_t i = 0; i < count; i++) {
        described[i] = encoded(device, &maps[i], places);
        parameters[operands + i] = &described[i];
    }
    const pock_device_kernel *kernel = &pock_device_kernels[number];
    pock_gpu_mark(device, 0);
    pock_gpu_note(device, device->cu.cuLaunchKernel(device->functions[number], blocks, 1, 1, threads, 1, 1, kernel->shared,
                                                    device->stream, parameters, NULL), kernel->name);
    pock_gpu_mark(device, 1);
}

void pock_launch(uint32_t number, unsigned blocks, unsigned threads, void *const *arg, uint32_t operands) {
    pock_launch_mapped(number, blocks, threads, arg, operands, NULL, 0);
}

int pock_multiply(const pock_product *product, void *const *arg) {
    return pock_gpu_multiply(running, product, arg);
}

void pock_copy_from_host(uint64_t bytes, void *const *arg) {
    pock_device *device = running;
    int apart = pock_gpu_begin_copy(device);
    pock_gpu_mark(device, 0);
    pock_gpu_note(device, device->cu.cuMemcpyHtoDAsync(pock_gpu_place(device, arg[1]), arg[0], (size_t)bytes,
                                                       apart ? device->copies.stream : device->stream),
                  "copying what is offloaded");
    pock_gpu_mark(device, 1);
    if (apart) {
        pock_gpu_end_copy(device);
    }
}
