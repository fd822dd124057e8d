/* What the emitted kernels.c has, and what it calls. */
#ifndef POCK_LAUNCH_H
#define POCK_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

/* A kernel's name, where in the unpacked images its machine code is, as the driver loads it, and how many bytes of shared memory
 * a launch gives each block. */
typedef struct {
    const char *name;
    uint32_t image, shared;
} pock_device_kernel;

extern const pock_device_kernel pock_device_kernels[];
extern const uint32_t pock_device_kernel_count;

/* The images of all kernels, one behind the other, packed by LZMA (unpack.h); and how many bytes they are then. */
extern const unsigned char pock_device_packed[];
extern const uint32_t pock_device_packed_bytes, pock_device_image_bytes;

/* The compute capability that the machine code is for (8, 7); whether it runs on no other. */
extern const int pock_capability_major, pock_capability_minor, pock_capability_exact;

/* Starts kernel `number` on the operands `arg`, which lie in the model's blocks. */
void pock_launch(uint32_t number, unsigned blocks, unsigned threads, void *const *arg, uint32_t operands);

/* How the GPU's engine finds boxes of an operand's numbers, which lie `offset` bytes from its beginning on: extents and steps in
 * bytes, the innermost dimension first, whose numbers have `itemsize` bytes and lie side by side. */
enum { POCK_MOST_RANK = 5, POCK_MOST_MAPS = 4 };
typedef struct {
    uint32_t operand;
    uint64_t offset;
    uint32_t itemsize, rank;
    uint64_t extents[POCK_MOST_RANK], strides[POCK_MOST_RANK - 1];
    uint32_t box[POCK_MOST_RANK];
} pock_device_map;

/* The same of a kernel that is given `count` such maps after its operands. */
void pock_launch_mapped(uint32_t number, unsigned blocks, unsigned threads, void *const *arg, uint32_t operands,
                        const pock_device_map *maps, uint32_t count);

/* How many products a library may make; whether no kernel is to take its place (to measure it). */
extern const uint32_t pock_products;
extern const int pock_products_by_library_alone;

/* Matrices of an operand: their numbers, how many of these are before the first one, and from a matrix, a row and a column to
 * the next. */
enum { POCK_NUMBERS_F32, POCK_NUMBERS_F16, POCK_NUMBERS_BF16 };
typedef struct {
    uint32_t operand, numbers;
    uint64_t offset;
    int64_t steps[3];
} pock_matrices;

/* Matrices, rows of the left ones, columns of the right ones and terms of each sum; in tf32, or as the operands are. Behind the
 * first `used` bytes of an operand are `bytes` that a library may use. */
typedef struct {
    uint64_t sizes[4];
    pock_matrices left, right, result;
    int tf32;
    uint32_t scratch;
    uint64_t used, bytes;
} pock_product;

/* Has a library make a product; 0 if a kernel must. */
int pock_multiply(const pock_product *product, void *const *arg);

/* Copies so many bytes from the processor's memory, arg[0], to the arena, arg[1]: it begins when the copy before it is done,
 * and the next kernel waits for it. */
void pock_copy_from_host(uint64_t bytes, void *const *arg);

#endif
