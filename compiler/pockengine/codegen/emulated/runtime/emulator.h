/* A GPU's launches on this processor. Blocks run one after the other; threads of a block are fibers, which change hands where
 * they wait for each other, so a kernel that forgets to wait gives wrong numbers in the same way each time. */
#ifndef POCK_EMULATOR_H
#define POCK_EMULATOR_H

/* Which block and thread this is. */
extern _Thread_local int pock_block, pock_thread;

/* Runs `body` on the operands `arg` as each thread of each block. `waits`: threads call pock_barrier. */
void pock_emulate(void (*body)(void *const *arg), void *const *arg, int blocks, int threads, int waits);

/* Waits for all threads of the block. Ends the process where one of them has ended: on a GPU that is undefined. */
void pock_barrier(void);

#endif
