/* A GPU's launches on this processor. Blocks run one after the other; threads of a block are fibers, which change hands where
 * they wait for each other, so a kernel that forgets to wait gives wrong numbers in the same way each time. */
#ifndef POCK_EMULATOR_H
#define POCK_EMULATOR_H

#include <stddef.h>
#include <stdint.h>

/* Which block and thread of it this is, and which of all threads that run together. */
extern _Thread_local int pock_block, pock_thread, pock_fiber;

/* A block's shared memory beside what its kernel declares. */
extern _Thread_local char *pock_pool;

/* Runs `body` on the operands `arg` as each thread of each block. `cluster`: blocks that run together; 0: threads do not wait for
 * each other. A block has `shared` bytes at pock_pool, with nothing sensible in them; one that writes beyond ends the process. */
void pock_emulate(void (*body)(void *const *arg), void *const *arg, int blocks, int threads, int cluster, int shared);

/* Waits for all threads of the block. Ends the process where one of them has ended: on a GPU that is undefined; and where each
 * waits for another. */
void pock_barrier(void);

/* Comes to a barrier of the block, 1 to POCK_MOST_TURNS, at which so many threads meet; waits for them, or goes on. */
#define POCK_MOST_TURNS 15
void pock_turn(int which, int threads, int waits);

/* Waits for all threads of the blocks that run together. The same place in the shared memory of block `rank` of them. */
void pock_cluster_barrier(void);
void *pock_of_block(const void *at, int rank);

/* For waits of other kinds: lets others go on; says that the thread, or what others wait for, has gone on; waits for all threads
 * of the warp. */
void pock_pause(void);
void pock_moved(void);
void pock_meet_warp(void);

/* A GPU's matrix units, for kernels in which all threads of a block multiply at the same place: rounding to nearest (of tf32,
 * halves away from zero), and sums in f32. The words are those of codegen/gpu/contraction/matrix.py. A fragment whose rows do
 * not begin at multiples of 16 bytes ends the process. */
enum { POCK_MATRIX_BF16, POCK_MATRIX_F16, POCK_MATRIX_TF32, POCK_MATRIX_E4M3 };
uint32_t pock_pack_bf16(float low, float high);
uint32_t pock_pack_f16(float low, float high);
uint32_t pock_tf32(float number);
void pock_fragment(uint32_t *words, const void *first, int pitch);
void pock_fragment_across(uint32_t *words, const void *first, int pitch);
float pock_quad(float number, int largest);
void pock_multiply(float *sums, const uint32_t *left, const uint32_t *right, int format);

/* Copies so many bytes, of which `aligned`, the place that is not the thread's own, is a multiple: else, and where they are more
 * than 16, the process ends. */
void pock_copy_run(void *to, const void *from, const void *aligned, size_t bytes);

/* An operand that is read in texels, pieces of 16 bytes: the words are those of codegen/gpu/contraction/texels.py. One beyond it
 * ends the process, and so does an operand that does not begin at a multiple of them. */
enum { POCK_TEXEL = 16 };
typedef struct {
    const char *first;
    int64_t count;
} pock_texels;
void pock_texel(const pock_texels *of, int64_t at, uint32_t *to);

/* The number of these bits, of 8 or 16. */
float pock_number_of(uint32_t bits, int format);

/* Matrix units that read shared memory by themselves: the words are those of codegen/gpu/hopper/units.py. They multiply as
 * late as they may: when a thread waits for them; what it holds of the left operand is read then. A tile that was not made visible,
 * or does not lie as it must, ends the process. */
typedef struct {
    float *sums;
    const uint32_t *held; /* the thread's words of the left operand, or NULL: it is the tile `left` */
    uint64_t left, right;
    int left_across, right_across, columns, format, anew;
} pock_products;
char *pock_pool_lines(void);
uint64_t pock_tile(const void *first, int further, int on);
void pock_copies_seen(void);
void pock_group_begin(void);
void pock_group_multiply(const pock_products *asked);
void pock_group_begun(void);
void pock_group_wait(int most);

/* What the engine copied, and somebody waited for, is visible to them. */
void pock_engine_seen(void);

/* The threads' products are none of later blocks' business. */
void pock_groups_end(void);

/* Copies to shared memory in the background. The words are those of codegen/gpu/contraction/streamed.py; a thread that copies
 * from or to no multiple of `bytes` ends the process. */
void pock_copy(int bytes, void *to, const void *from, int there);
void pock_copies_begun(void);
void pock_copies_wait(int most);

/* Copies of boxes by the GPU's engine, and the barriers that count their bytes. The words are those of
 * codegen/gpu/hopper/engine.py. From its beginning to the moment when somebody waits for it a copy's place holds
 * nothing sensible. */
#define POCK_MOST_RANK 5
typedef struct {
    const char *first; /* of the tensor */
    uint64_t extents[POCK_MOST_RANK], strides[POCK_MOST_RANK - 1];
    uint32_t box[POCK_MOST_RANK], rank, itemsize;
} pock_tensor_map;
void pock_mbarrier_init(uint64_t *barrier, int count);
void pock_mbarriers_seen(void);
void pock_mbarrier_arrive(uint64_t *barrier, int bytes);
void pock_mbarrier_wait(uint64_t *barrier, int parity);
void pock_tensor_copy(void *to, const pock_tensor_map *map, uint64_t *full, const int *at);

/* The same to two blocks that run together, each of which counts the bytes. */
void pock_tensor_copy_both(void *to, const pock_tensor_map *map, uint64_t *full, const int *at);

/* Ends the process where a block ends before one of its copies. */
void pock_tensor_copies_end(void);

#endif
