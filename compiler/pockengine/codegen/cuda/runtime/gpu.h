/* An opened GPU, for the files of the runtime's part that hands work to it. */
#ifndef POCK_GPU_H
#define POCK_GPU_H

#include "cublaslt.h"
#include "cuda.h"
#include "device.h"
#include "launch.h"

#define POCK_MOST_PROGRAMS 5

#define POCK_FIELD(function, name, parameters) CUresult (*function) parameters;
typedef struct {
    POCK_CUDA_FUNCTIONS(POCK_FIELD)
} pock_cuda;

#define POCK_LIBRARY_FIELD(function, parameters) cublasStatus_t (*function) parameters;
typedef struct {
    POCK_CUBLASLT_FUNCTIONS(POCK_LIBRARY_FIELD)
} pock_cublaslt;

/* A program's launches, replayed as one. */
typedef struct {
    const pock_program *program;
    CUgraphExec exec;
} pock_replay;

/* Events of an observed run: before and after each call, of which `called` were made. */
typedef struct {
    CUevent *events;
    uint32_t calls, called;
} pock_watch;

/* A stream beside that of the kernels, and two events without times; NULL: none. */
typedef struct {
    CUstream stream;
    CUevent copied, reached;
} pock_aside;

/* Two stages for inputs in pinned memory. While a run reads the inputs of one, the next run's go from the other, by a stream of
 * their own, to a place on the GPU where they wait. */
typedef struct {
    char *stage[2]; /* the second NULL: there is one */
    int filled;     /* which of them is the input block */
    int ahead;      /* the next run's inputs wait, or are on their way */
    CUdeviceptr place;
    pock_aside aside; /* `copied` to the place; `reached` when they are taken from it */
} pock_inputs;

/* What others do with the GPU's memory. `inputs` has, for each of the model's, where the next run takes it on the GPU; 0: from the
 * processor. */
typedef struct {
    CUdeviceptr *inputs;
    int any;        /* of them is not 0 */
    int shared;     /* others may read places in the blocks, or write what is given */
    int keeps;      /* the next run's outputs stay */
    CUevent queued; /* what others have queued before a run; NULL: never asked */
} pock_others;

struct pock_device {
    void *library;
    pock_cuda cu;
    const pock_model *model;
    char name[128];
    CUdevice id;
    CUcontext context;
    CUstream stream;
    CUmodule *modules;
    CUfunction *functions;
    int shares;                    /* GPU and processor have one memory: the blocks are both's */
    CUdeviceptr memory;            /* of all blocks, where it does not */
    CUdeviceptr base[POCK_SPACES]; /* the blocks, as the GPU sees them */
    char *space[POCK_SPACES];
    size_t bytes[POCK_SPACES];
    int registered[POCK_SPACES];
    int newer_there, newer_here; /* parameters and state, of GPU and processor */
    pock_replay replays[POCK_MOST_PROGRAMS];
    pock_inputs inputs;
    pock_aside copies; /* of what is offloaded: one begins when the kernels before the last copy, and that itself, are done */
    pock_watch watch;
    pock_cublaslt lt;
    cublasLtHandle_t products; /* NULL: kernels make all of them */
    pock_others others;
    int observed, capturing;
    CUresult failure; /* the first of a run */
    const char *failed;
};

/* The driver, a GPU that runs the kernels, and its context. */
int pock_gpu_open(pock_device *device, pock_error *error);

/* What the driver says of a result. */
const char *pock_gpu_text(const pock_device *device, CUresult result);

/* Remembers the first failure of a run; POCK_OK if there was none, or a sentence. */
void pock_gpu_note(pock_device *device, CUresult result, const char *what);
int pock_gpu_report(pock_device *device, pock_error *error);

/* Loads the program's kernels; unload also after a failure. */
int pock_gpu_load_kernels(pock_device *device, pock_error *error);
void pock_gpu_unload_kernels(pock_device *device);

/* Times the calls of the next run; whether that is possible. `mark` stands before and after each. */
int pock_gpu_watch(pock_device *device, uint32_t calls);
void pock_gpu_mark(pock_device *device, int after);
void pock_gpu_unwatch(pock_device *device);

/* The block in which the processor has the place `at`, and that place as the GPU sees it. */
int pock_gpu_space(const pock_device *device, const char *at);
CUdeviceptr pock_gpu_place(const pock_device *device, const char *at);

/* Finds the library of products, if the program has some that it may make; without it nothing is wrong. */
void pock_gpu_open_library(pock_device *device);
void pock_gpu_close_library(pock_device *device);

/* See pock_multiply. */
int pock_gpu_multiply(pock_device *device, const pock_product *product, void *const *arg);

/* Memory for the blocks. */
int pock_gpu_take_memory(pock_device *device, pock_error *error);
void pock_gpu_give_memory(pock_device *device);

/* A stream beside that of the kernels; after a failure there is none. */
CUresult pock_gpu_open_aside(pock_device *device, pock_aside *aside);
void pock_gpu_close_aside(pock_device *device, pock_aside *aside);

/* Makes a second stage, if there is memory for it: the GPU's place is `place`. A failure costs nothing but the stage. */
void pock_gpu_open_inputs(pock_device *device, CUdeviceptr place);
void pock_gpu_close_inputs(pock_device *device);

/* Of copies of what is offloaded, which without a stream take that of the kernels: the first one may begin here; `begin` and
 * `end` stand around each one that is queued in the stream of copies. */
void pock_gpu_reach(pock_device *device);
int pock_gpu_begin_copy(pock_device *device);
void pock_gpu_end_copy(pock_device *device);

/* Queues the copy of the next run's inputs but those that others gave; whichever way they are there already. */
void pock_gpu_send_inputs(pock_device *device);

/* Queues a wait for what others have queued so far, if they use this GPU's memory; and the copies of inputs that they gave. */
void pock_gpu_follow(pock_device *device);
void pock_gpu_take_given(pock_device *device);
void pock_gpu_close_others(pock_device *device);

/* Queues copies: blocks that the processor filled, results, and what programs change. Nothing where memory is shared; results stay
 * where they are to be kept. */
void pock_gpu_send(pock_device *device);
void pock_gpu_send_changed(pock_device *device);
void pock_gpu_receive(pock_device *device, const pock_program *program);

#endif
