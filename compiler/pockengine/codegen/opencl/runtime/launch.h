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

/* Starts kernel `number` on the operands `arg`, which lie in the device's blocks. */
void pock_launch(uint32_t number, size_t blocks, size_t threads, void *const *arg, uint32_t operands);

#endif
