/* Threads that do a kernel's shares. Share t goes to thread t, or to the caller where that thread is not there in time;
   what a share computes depends on its number only, so results do not depend on timing. */
#ifndef POCK_THREADS_H
#define POCK_THREADS_H

#include "error.h"
#include "pock.h"

typedef struct pock_pool pock_pool;

/* A pool of `threads` including the caller; NULL in `*pool` when that is one. */
int pock_pool_open(pock_pool **pool, uint32_t threads, pock_error *error);
void pock_pool_close(pock_pool *pool);

/* A pock_parallel whose context is the pool: returns when all shares are done. */
void pock_pool_run(void *pool, pock_kernel kernel, void *const *arg);

/* Cores this process may use. */
uint32_t pock_cores(void);

#endif
