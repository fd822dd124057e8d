/* A CUDA driver without a GPU: its memory is its own, launches are recorded and replayed as the program says, and kernels are
 * the emulated ones of the same names. What is queued happens as late as it may: when somebody waits for it. FAKE in the
 * environment gives it a trouble, FAKE_CAPABILITY another capability (90); with `eager`, other streams than the first are as
 * early as they may be. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

#define EM_CUDA 190
#define LOST 719
#define MOST_LAUNCHES 4096
#define MOST_OPERANDS 64
#define MOST_KERNELS 4096
#define MOST_QUEUED 65536
#define MOST_STREAMS 2
#define MOST_ALLOCATED 64
#define IN_CAPTURE 900
#define NOT_READY 600

/* What a kernel wants to be told of an operand, beside where it begins. */
typedef struct {
    unsigned operand, offset, itemsize, rank;
    uint64_t extents[5], strides[4];
    uint32_t box[5];
} map;

typedef struct {
    const char *name;
    void (*run)(void *const *arg, int task, int tasks);
    unsigned blocks, threads, operands, shared, mapped;
    map maps[4];
} emulated;

/* Of the program under test: see driver.py. */
extern const emulated fake_kernels[];

/* A kernel that starts, or a copy; without either, the point of a graph's stream that others wait for, or a wait for point
 * `waits`. */
typedef struct {
    const emulated *kernel;
    void *to;
    const void *from;
    size_t bytes;
    unsigned stream, waits;
    void *arg[MOST_OPERANDS];
} launch;

struct CUgraph_st {
    unsigned count;
    launch launches[MOST_LAUNCHES];
};

/* How often it was recorded, and how often that has happened; in a graph, the launch that is its point, and 1. */
struct CUevent_st {
    CUstream stream;
    unsigned recorded, happened, point;
    double ms;
};

/* One of: a copy, launches, an event that happens, one that is waited for. */
typedef struct {
    void *to;
    const void *from;
    size_t bytes;
    launch *launches;
    unsigned count;
    CUevent happens, waits;
    unsigned wanted; /* how often what is waited for has to have happened */
} work;

struct CUstream_st {
    work queue[MOST_QUEUED];
    unsigned next, count;
};

static unsigned asked[MOST_KERNELS]; /* bytes of shared memory that a kernel may be given */
static struct CUgraph_st *recording;
static CUstream captured[MOST_STREAMS]; /* those that are recorded, the first of which began it */
static double clock_ms; /* a block takes a 1024th of a millisecond, and nothing else takes time */
static size_t taken;
static struct {
    uintptr_t begin, end;
} allocated[MOST_ALLOCATED]; /* the GPU's memory */
static unsigned replays, overlapped;
static CUstream first;

static int is(const char *trouble) {
    const char *has = getenv("FAKE");
    return has && strcmp(has, trouble) == 0;
}

static size_t memory(void) {
    const char *bytes = getenv("FAKE_MEMORY");
    return is("small") ? 4096 : bytes ? strtoull(bytes, NULL, 10) : (size_t)1 << 32;
}

/* Launches of a graph, its streams one by one: the first as early as may be and others when it waits for them, or, eager,
 * the others first. */
typedef struct {
    const launch *launches;
    unsigned count, next[MOST_STREAMS];
    char *done;
} play;

static int play_one(play *now, unsigned stream) {
    unsigned *at = &now->next[stream];
    while (*at < now->count && now->launches[*at].stream != stream) {
        (*at)++;
    }
    const launch *one = &now->launches[*at];
    if (*at == now->count || (one->waits && !now->done[one->waits - 1])) {
        return 0;
    }
    if (one->bytes) {
        memcpy(one->to, one->from, one->bytes);
    }
    if (one->kernel) {
        one->kernel->run(one->arg, 0, 1);
        clock_ms += one->kernel->blocks / 1024.0;
    }
    now->done[(*at)++] = 1;
    return 1;
}

static void play_all(const launch *launches, unsigned count) {
    play now = {launches, count, {0}, calloc(count + 1, 1)};
    unsigned first_turn = is("eager") ? MOST_STREAMS - 1 : 0, other = MOST_STREAMS - 1 - first_turn;
    while (play_one(&now, first_turn) || play_one(&now, other)) {
    }
    for (unsigned i = 0; i < count; i++) {
        if (!now.done[i]) {
            abort(); /* streams that wait for each other */
        }
    }
    free(now.done);
}

/* The place of a stream among those that are recorded. */
static unsigned place_of(CUstream stream) {
    unsigned place = 0;
    while (place < MOST_STREAMS && captured[place] != stream) {
        place++;
    }
    return recording ? place : MOST_STREAMS;
}

static CUresult note(launch one) {
    recording->launches[recording->count++] = one;
    return CUDA_SUCCESS;
}

static int may_go_on(const work *one) {
    return !one->waits || one->waits->happened >= one->wanted;
}

/* Does what is next in a stream; what that waits for is done before. */
static void step(CUstream stream) {
    work *one = &stream->queue[stream->next];
    while (!may_go_on(one)) {
        step(one->waits->stream);
    }
    if (one->bytes) {
        memcpy(one->to, one->from, one->bytes);
    }
    play_all(one->launches, one->count);
    free(one->launches);
    if (one->happens) {
        one->happens->happened++;
        one->happens->ms = clock_ms;
    }
    stream->next++;
    if (stream->next == stream->count) {
        stream->next = stream->count = 0;
    }
}

/* The legacy default stream has two names. */
static CUstream named(CUstream stream) {
    static struct CUstream_st legacy;
    return !stream || stream == CU_STREAM_LEGACY ? &legacy : stream;
}

static CUresult put(CUstream named_so, work one) {
    CUstream stream = named(named_so);
    if (place_of(stream) < MOST_STREAMS) {
        return IN_CAPTURE;
    }
    if (stream->count == MOST_QUEUED) {
        abort();
    }
    stream->queue[stream->count++] = one;
    overlapped += first && stream != first && first->count && one.bytes;
    while (is("eager") && stream != first && stream->next < stream->count && may_go_on(&stream->queue[stream->next])) {
        step(stream);
    }
    return CUDA_SUCCESS;
}

static launch *copy_of(const launch *launches, unsigned count) {
    launch *copy = malloc(count * sizeof *copy + 1);
    if (!copy) {
        abort();
    }
    return memcpy(copy, launches, count * sizeof *copy);
}

/* Records a launch where its stream is recorded, else puts it there. */
static CUresult queue(CUstream stream, launch made) {
    return place_of(stream) < MOST_STREAMS ? note(made) : put(stream, (work){.launches = copy_of(&made, 1), .count = 1});
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
    const char *told = getenv("FAKE_CAPABILITY");
    int integrated = is("integrated"), capability = told ? atoi(told) : 87;
    *value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? (is("other") ? 7 : capability / 10)
             : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? capability % 10
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
        fprintf(log, "%u %zu %u\n", replays, taken, overlapped);
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
    unsigned place = 0;
    while (allocated[place].end) {
        place++;
    }
    allocated[place].begin = (uintptr_t)memory_there;
    allocated[place].end = (uintptr_t)memory_there + bytes;
    *at = (CUdeviceptr)(uintptr_t)memory_there;
    return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr at) {
    for (unsigned place = 0; place < MOST_ALLOCATED; place++) {
        allocated[place].end = allocated[place].begin == at ? 0 : allocated[place].end;
    }
    free((void *)(uintptr_t)at);
    return CUDA_SUCCESS;
}
CUresult cuPointerGetAttribute(void *value, int what, CUdeviceptr at) {
    for (unsigned place = 0; place < MOST_ALLOCATED; place++) {
        if (at >= allocated[place].begin && at < allocated[place].end) {
            *(int *)value = what == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? CU_MEMORYTYPE_DEVICE : is("elsewhere");
            return CUDA_SUCCESS;
        }
    }
    return 1;
}
CUresult cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) {
    (void)flags;
    return (uintptr_t)at % 4096 || !bytes ? 1 : is("pageable") ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult cuMemHostUnregister(void *at) {
    return at ? CUDA_SUCCESS : 1;
}
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *there, void *at, unsigned flags) {
    (void)flags;
    *there = (CUdeviceptr)(uintptr_t)at;
    return CUDA_SUCCESS;
}
/* Bytes that went to the GPU, or came from it, outside of graphs. */
static size_t moved[2];
size_t fake_moved(int from_gpu);
size_t fake_moved(int from_gpu) {
    return moved[from_gpu];
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    moved[0] += bytes;
    if (place_of(stream) < MOST_STREAMS) {
        return note((launch){.to = (void *)(uintptr_t)to, .from = from, .bytes = bytes, .stream = place_of(stream)});
    }
    return put(stream, (work){.to = (void *)(uintptr_t)to, .from = from, .bytes = bytes});
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    moved[1] += bytes;
    return put(stream, (work){.to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return put(stream, (work){.to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
}
CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    *at = flags || is("unpinned") ? NULL : aligned_alloc(4096, bytes);
    return *at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemFreeHost(void *at) {
    free(at);
    return CUDA_SUCCESS;
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
CUresult cuFuncSetAttribute(CUfunction function, int what, int value) {
    const emulated *kernel = (const emulated *)(const void *)function;
    if (what != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || kernel - fake_kernels >= MOST_KERNELS || is("no-room")) {
        return 1;
    }
    asked[kernel - fake_kernels] = (unsigned)value;
    return CUDA_SUCCESS;
}
/* A map as this driver writes it: where the numbers begin, and of what it was made. */
typedef struct {
    CUdeviceptr first;
    uint64_t sum;
} described;

static uint64_t summed(unsigned rank, unsigned itemsize, const uint64_t *extents, const uint64_t *strides, const uint32_t *box) {
    uint64_t sum = rank * 31 + itemsize;
    for (unsigned i = 0; i < rank; i++) {
        sum = sum * 1000003 + extents[i];
        sum = sum * 1000003 + (i ? strides[i - 1] : 0);
        sum = sum * 1000003 + box[i];
    }
    return sum;
}
CUresult cuTensorMapEncodeTiled(CUtensorMap *made, int type, uint32_t rank, CUdeviceptr first, const uint64_t *extents,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave, int swizzle,
                                int promotion, int fill) {
    if ((uintptr_t)made % 64 || rank < 2 || rank > 5 || first % 16 || interleave || fill || swizzle != CU_TENSOR_MAP_SWIZZLE_128B ||
        promotion != CU_TENSOR_MAP_L2_PROMOTION_L2_256B || box[0] * (type + 1u) != 128) {
        return 1;
    }
    for (unsigned i = 0; i < rank; i++) { /* each step is a multiple of the one before */
        uint64_t before = i > 1 ? strides[i - 2] : 16, step = i ? strides[i - 1] : 16;
        if (!box[i] || box[i] > 256 || !extents[i] || steps[i] != 1 || step % before) {
            return 1;
        }
    }
    described map = {first, summed(rank, (unsigned)type + 1, extents, strides, box)};
    memcpy(made, &map, sizeof map);
    return CUDA_SUCCESS;
}

/* Whether a launch's map `i` is the one that the kernel wants. */
static int is_wanted(const emulated *kernel, unsigned i, void **parameters) {
    const map *wanted = &kernel->maps[i];
    described given;
    CUdeviceptr place;
    memcpy(&given, parameters[kernel->operands + i], sizeof given);
    memcpy(&place, parameters[wanted->operand], sizeof place);
    return given.first == place + wanted->offset &&
           given.sum == summed(wanted->rank, wanted->itemsize, wanted->extents, wanted->strides, wanted->box);
}
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty, unsigned tz,
                        unsigned shared, CUstream stream, void **parameters, void **extra) {
    const emulated *kernel = (const emulated *)(const void *)function;
    launch made = {.kernel = kernel, .stream = place_of(stream) % MOST_STREAMS};
    if (x != kernel->blocks || threads != kernel->threads || y * z * ty * tz != 1 || extra || shared != kernel->shared ||
        (shared > POCK_USUAL_SHARED && shared > asked[kernel - fake_kernels])) {
        return 1;
    }
    for (unsigned i = 0; i < kernel->operands; i++) {
        memcpy(&made.arg[i], parameters[i], sizeof(CUdeviceptr));
    }
    for (unsigned i = 0; i < kernel->mapped; i++) {
        if (!is_wanted(kernel, i, parameters)) {
            return 1;
        }
    }
    return queue(stream, made);
}
/* For libraries that have kernels of their own: one that begins when the stream comes to it. */
CUresult fake_call(CUstream stream, void (*run)(void *const *arg, int task, int tasks), void *argument) {
    emulated *kernel = calloc(1, sizeof *kernel);
    if (!kernel) {
        abort();
    }
    *kernel = (emulated){.name = "library", .run = run, .blocks = 1};
    return queue(stream, (launch){.kernel = kernel, .stream = place_of(stream) % MOST_STREAMS, .arg = {argument}});
}
typedef struct {
    void *to;
    unsigned char value;
    size_t bytes;
} filling;
static void fill(void *const *arg, int task, int tasks) {
    const filling *of = arg[0];
    (void)task;
    (void)tasks;
    memset(of->to, of->value, of->bytes);
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    filling *asked = malloc(sizeof *asked);
    if (!asked) {
        abort();
    }
    *asked = (filling){(void *)(uintptr_t)to, value, bytes};
    return fake_call(stream, fill, asked);
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    first = first ? first : *stream;
    return *stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
    if (stream->count) {
        abort(); /* what it copies to or from may be gone */
    }
    first = first == stream ? NULL : first;
    free(stream);
    return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream named_so) {
    CUstream stream = named(named_so);
    if (place_of(stream) < MOST_STREAMS) {
        return IN_CAPTURE;
    }
    while (stream->next < stream->count) {
        step(stream);
    }
    return is("lost") && replays > 1 ? LOST : CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    if (recording && event->point) { /* who waits for what is recorded is recorded, too */
        captured[1] = place_of(stream) < MOST_STREAMS ? captured[1] : stream;
        return note((launch){.stream = place_of(stream), .waits = event->point});
    }
    return flags ? 1 : put(stream, (work){.waits = event, .wanted = event->recorded});
}
CUresult cuEventCreate(CUevent *event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof **event);
    return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuEventDestroy_v2(CUevent event) {
    free(event);
    return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
    event->point = 0;
    if (place_of(stream) < MOST_STREAMS) {
        event->point = recording->count + 1;
        return note((launch){.stream = place_of(stream)});
    }
    event->stream = named(stream);
    event->recorded++;
    return put(stream, (work){.happens = event});
}
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
    *ms = (float)(end->ms - start->ms);
    int both = start->happened && end->happened && start->happened == start->recorded && end->happened == end->recorded;
    return both ? CUDA_SUCCESS : NOT_READY;
}
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    (void)mode;
    captured[0] = stream;
    captured[1] = NULL;
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
    const struct CUgraph_st *graph = (const void *)exec;
    replays++;
    return put(stream, (work){.launches = copy_of(graph->launches, graph->count), .count = graph->count});
}
CUresult cuGraphDestroy(CUgraph graph) {
    free(graph);
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
    free(exec);
    return CUDA_SUCCESS;
}
