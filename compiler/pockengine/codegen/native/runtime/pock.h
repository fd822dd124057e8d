/* What the emitted model and the runtime agree on. Freestanding: needs only <stdint.h> and <stddef.h>.
 *
 * A model is data: tables of tensors and of kernel calls. Memory is five blocks ("spaces"), each one allocation that the
 * caller provides; a call's operands are (space, offset) pairs. The core (core.c) walks the table; everything that needs an
 * operating system (threads, files, command line) is in the hosted part. */
#ifndef POCK_H
#define POCK_H

#include <stddef.h>
#include <stdint.h>

/* What lies in POCK_HOST stays in the processor's memory where kernels run on a GPU. A parameter in POCK_FILE is not in
 * memory: programs get the rows they read as inputs (pock_streamed). */
enum pock_space {
    POCK_ARENA, POCK_PARAM, POCK_STATE, POCK_CONST, POCK_INPUT, POCK_HOST, POCK_SPACES, POCK_FILE = POCK_SPACES
};
enum pock_dtype {
    POCK_F32, POCK_F64, POCK_F16, POCK_BF16, POCK_I8, POCK_U8, POCK_I32, POCK_I64, POCK_BOOL,
    POCK_I16, POCK_U16, POCK_U32, POCK_U64
};

/* Who reads an input: every program; only train and eval (labels, teacher's outputs, masks: predict does without them);
 * or train and eval, as the weight of each sample: 1 where the dataset does not say, 0 for rows that fill up a batch. */
enum pock_target { POCK_NOT_TARGET, POCK_TARGET, POCK_SAMPLE_WEIGHT };

/* What the samples that do not fill a step at the end of an epoch do: begin the next epoch within the same step, stay
 * away, or make a smaller batch (the model then has an input that is POCK_SAMPLE_WEIGHT). */
enum pock_last_batch { POCK_WRAP, POCK_DROP, POCK_PARTIAL };

/* The most operands one call may have, workspace included. */
#define POCK_MAX_OPERANDS 256

/* Where a value lives: byte offset in a space; offsets are multiples of the model's alignment. */
typedef struct {
    uint64_t space : 4;
    uint64_t offset : 60;
} pock_ref;

/* How a frozen weight of floats lies in memory: as the panels of columns that its contraction reads, a permutation of the
 * original. Three loops (extent, stride in elements) walk each axis of the original, b, n and k; element (b, n, k) lies at
 * b * N * K + panel * columns * K + k * width + n % columns, where the last panel's width is what is left of N. */
typedef struct {
    int64_t extent, stride;
} pock_loop;

typedef struct {
    int64_t columns;
    pock_loop b[3], n[3], k[3];
} pock_packing;

/* A named tensor. `fill` is the initial contents of optimizer state. `trained` is 1 when the step changes it. `limit`, when
 * not 0, is what every integer of an input must stay below (classes for labels, rows of the table for indices): kernels
 * index memory with them, so the runtime refuses others but `ignored` (labels that do not count; 0 when there is no such
 * number). `target` is a pock_target. `average_of`, when not NULL, says that the state is the moving average of a parameter:
 * it starts with the parameter's contents instead of `fill`, eval and predict read it in the parameter's place, and it is
 * what is saved under the parameter's name, in the parameter's type; of one in bf16 it is f32. `rounded`, when not 0, is what
 * a frozen parameter of f32 is rounded to when it is read to memory: POCK_BF16 or POCK_F16. */
typedef struct pock_tensor {
    const char *name;
    uint8_t dtype, rank, trained;
    float fill;
    const int64_t *shape;
    uint64_t nbytes;
    pock_ref ref;
    int64_t limit;
    const struct pock_tensor *average_of;
    int64_t ignored;
    uint8_t target;
    const pock_packing *packing; /* NULL: as in files */
    uint8_t rounded;
} pock_tensor;

/* Before each run, `rows` gets for each of `count` integers at `indices` that row of `table`, a parameter in POCK_FILE. */
typedef struct {
    const pock_tensor *table;
    pock_ref indices;
    uint8_t dtype; /* of the indices */
    uint64_t count;
    pock_ref rows;
} pock_streamed;

/* One kernel does share `task` of `tasks` of its work on the operands `arg`; shares never write the same bytes.
 * Operands come in the order of the call's refs; the last one is the workspace when the kernel has one. */
typedef void (*pock_kernel)(void *const *arg, int task, int tasks);

typedef struct {
    pock_kernel kernel;
    const char *name;      /* the user's name for what this computes */
    const char *symbol;    /* the kernel's name, as in kernels' sources */
    uint32_t first_ref, refs;
    uint32_t node;         /* index in the plan */
    uint8_t parallel;      /* 0: run with tasks == 1 on the calling thread */
    double flops, bytes;
} pock_call;

/* One program: train, eval, predict, accumulate, norms or generate. Outputs lie in the arena, valid until the next run. */
typedef struct {
    const char *name;
    const pock_call *calls;
    uint32_t call_count;
    const pock_ref *refs;
    const pock_tensor *outputs; /* train: "loss" (f32 scalar). eval: f32[batch] each "sample_loss", "loss_weight" (its
                                 * denominator), "correct", "counted" (its denominator), then the model's outputs */
    uint32_t output_count;
    uint64_t arena_bytes;
} pock_program;

typedef struct {
    const char *name, *target;
    uint32_t threads;                  /* the most threads the workspaces allow */
    uint32_t batch;
    uint64_t space_bytes[POCK_SPACES];
    uint64_t predicted_peak_bytes;
    uint32_t alignment;                /* spaces, and values in them, begin at multiples of it; a power of two, at most 4096 */
    const pock_tensor *params, *states, *consts, *inputs;
    uint32_t param_count, state_count, const_count, input_count;
    const pock_streamed *streamed; /* each of another table */
    uint32_t streamed_count;
    /* `accumulate` (NULL when `accumulate_steps` is 1) adds a micro-batch's gradients to states and has the output "loss".
     * One optimizer step is accumulate_steps - 1 runs of it and then one of train, each on the next micro-batch. */
    const pock_program *train, *eval, *predict, *accumulate;
    /* `norms` (NULL: none) has for each running statistic of a batch norm an output of its name, that of the batch. Before
     * training it sees `norm_batches` batches, whose mean becomes the running one. */
    const pock_program *norms;
    uint32_t norm_batches;
    /* `generate` (NULL: none) reads one token at one position, `generate_inputs` [2], and has the scores of the token that
     * follows as its only output. What it knows of the tokens before lies in the block of states, where no table of tensors
     * names it. */
    const pock_program *generate;
    const pock_tensor *generate_inputs;
    uint32_t accumulate_steps;
    uint8_t last_batch; /* a pock_last_batch */
    uint8_t perplexity; /* exp(loss) means something: the loss is one of tokens */
} pock_model;

/* Defined by the emitted model.c. */
extern const pock_model pock_model_data;

/* How the core runs a kernel's shares; the hosted runtime gives a thread pool, a microcontroller none (NULL: one share). */
typedef void (*pock_parallel)(void *context, pock_kernel kernel, void *const *arg);

/* Called after each kernel when not NULL (profiling). */
typedef void (*pock_observer)(void *context, uint32_t call);

/* Runs all calls of a program in order. `space` holds the five base addresses, each a multiple of the model's
 * alignment. */
void pock_run(const pock_program *program, char *const space[POCK_SPACES], pock_parallel parallel, void *context,
              pock_observer observer, void *observer_context);

/* Fills the state block with the tensors' initial values; the parameters must have theirs. */
void pock_init_states(const pock_model *model, char *const space[POCK_SPACES]);

/* Starts a parameter's moving average, if it has one, with the parameter's contents. */
void pock_restart_average(const pock_model *model, char *const space[POCK_SPACES], const pock_tensor *param);

#endif
