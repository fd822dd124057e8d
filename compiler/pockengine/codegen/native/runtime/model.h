/* The compiled model as a library: open, step, read the tensors, close.
 *
 * Every function but pock_info and pock_message returns 0, or a code as the executable's exit codes (2 bad argument,
 * 3 bad data, 4 input/output, 5 not enough memory); pock_message then has one sentence. A session is used by one thread at a
 * time; several sessions may be open at once. pock_info tells names, types, shapes and order of inputs and tensors. */
#ifndef POCK_MODEL_H
#define POCK_MODEL_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define POCK_API __attribute__((visibility("default")))

typedef struct pock_session pock_session;

/* Where something of a session lies, for others that read or write it there: NULL where the processor, or a GPU, does not. `gpu` is
 * the number of the GPU, as CUDA counts them in this process. It is the same until the session is closed. */
typedef struct pock_place {
    void *on_processor, *on_gpu;
    int gpu;
} pock_place;

/* One JSON object: target, inputs, outputs, tensors, memory. Valid as long as the library is loaded; NULL without memory. */
POCK_API const char *pock_info(void);

/* Opens a session on the weights files; `consts_path` may be NULL when the model has none, `threads` 0 takes as many as the
 * model allows and the machine has. `*session` is set also on failure (unless memory ran out), for pock_message; close it. */
POCK_API int pock_open(pock_session **session, const char *params_path, const char *consts_path, int threads);

/* One whole training step. `batch` has one pointer per input, in order; a model that accumulates gradients takes all of a
 * step's micro-batches, one after the other. The pointer of `sample_weight` may be NULL: every sample then counts 1. `*loss`
 * (of micro-batches: their mean) may be NaN: see whether it is.
 *
 * A pointer of any batch may be that of the input's own place (pock_input_place): nothing is copied then. On a GPU of NVIDIA's it may
 * be in that GPU's memory: numbers go from there to the input's place; whole numbers that are checked, and weights of samples, are
 * read by the processor as well. What is queued in the GPU's legacy default stream is waited for. */
POCK_API int pock_step(pock_session *session, const void *const *batch, float *loss);

/* The model's outputs, copied to one pointer per output (NULL: not wanted). Pointers of targets in `batch` are not read. If none
 * is wanted, outputs are only where they are made: pock_output_place. */
POCK_API int pock_predict(pock_session *session, const void *const *batch, void *const *outputs);

/* Four numbers of each sample of a batch: its mean loss and what that counts (the number of positions, or the sum of their
 * weights), its share of right answers and what that counts: -1 and 0 where the model has no notion of right. The loss of
 * many samples is sum(loss * loss_weight) / sum(loss_weight). */
POCK_API int pock_eval(pock_session *session, const void *const *batch, float *sample_loss, float *loss_weight,
                       float *correct, float *counted);

/* Takes one batch into the running statistics of batch norms, after `done` others: they become the mean of what these
 * batches have. For models whose recipe says `norm_batches`; before training. Targets are not read. */
POCK_API int pock_estimate_norms(pock_session *session, const void *const *batch, uint64_t done);

/* Copies a parameter or optimizer state by name; `bytes` must be its size. */
POCK_API int pock_get_tensor(pock_session *session, const char *name, void *data, size_t bytes);
POCK_API int pock_set_tensor(pock_session *session, const char *name, const void *data, size_t bytes);

/* Where an input is read from, and an output of pock_predict is made, by their numbers in pock_info(); an output is there until the
 * next call. */
POCK_API int pock_input_place(pock_session *session, uint32_t input, pock_place *place);
POCK_API int pock_output_place(pock_session *session, uint32_t output, pock_place *place);

/* Where a parameter or optimizer state lies: only to be read there, and asked for again after pock_set_tensor and pock_load. Those
 * that do not lie in memory as they are in files have no such place. */
POCK_API int pock_tensor_place(pock_session *session, const char *name, pock_place *place);

/* Weights as safetensors: all written, or those in the file replaced. */
POCK_API int pock_save(pock_session *session, const char *path);
POCK_API int pock_load(pock_session *session, const char *path);

/* Threads in use. */
POCK_API int pock_threads(const pock_session *session);

/* What went wrong last. */
POCK_API const char *pock_message(const pock_session *session);

POCK_API void pock_close(pock_session *session);

#if defined(__cplusplus)
}
#endif

#endif
