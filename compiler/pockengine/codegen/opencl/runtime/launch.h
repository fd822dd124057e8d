/* What the emitted kernels.c has, and what it calls. */
#ifndef POCK_LAUNCH_H
#define POCK_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

/* The text of all kernels, in pieces, and their names. */
extern const char *const pock_kernel_texts[];
extern const uint32_t pock_kernel_text_count;
extern const char *const pock_kernel_names[];
extern const uint32_t pock_kernel_count;
extern const int pock_kernels_need_double;

/* The blocks of which kernels read images, a bit for each. */
extern const uint32_t pock_image_blocks;

/* Starts kernel `number` on the operands `arg`, which lie in the device's blocks. */
void pock_launch(uint32_t number, size_t blocks, size_t threads, void *const *arg, uint32_t operands);

/* An operand that a kernel reads in texels: as an image of the block where it lies, if there is one; negative: as a buffer. */
typedef struct {
    uint32_t operand;
    int block;
} pock_device_map;

/* The same of a kernel that is given `count` such operands once more, after all of them. */
void pock_launch_mapped(uint32_t number, size_t blocks, size_t threads, void *const *arg, uint32_t operands,
                        const pock_device_map *maps, uint32_t count);

#endif
