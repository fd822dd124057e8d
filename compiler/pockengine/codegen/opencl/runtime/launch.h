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

/* Whether a kernel is given images. */
extern const int pock_kernels_read_images;

/* Starts kernel `number` on the operands `arg`, which lie in the device's blocks. */
void pock_launch(uint32_t number, size_t blocks, size_t threads, void *const *arg, uint32_t operands);

/* An operand that a kernel reads as an image. */
typedef struct {
    uint32_t operand;
} pock_device_map;

/* The same of a kernel that is given `count` such operands once more, after all of them. */
void pock_launch_mapped(uint32_t number, size_t blocks, size_t threads, void *const *arg, uint32_t operands,
                        const pock_device_map *maps, uint32_t count);

#endif
