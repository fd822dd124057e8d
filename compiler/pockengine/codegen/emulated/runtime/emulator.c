#include "emulator.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST_THREADS 1024
#define WARP 32
#define STACK_BYTES (64 << 10)

#define MOST_SHARED (227 << 10) /* of a block of a GPU of capability 9.0 */
#define BEYOND 1024             /* bytes behind a block's memory that stay as they are */
#define AT 128                  /* where it begins: GPUs promise no higher multiple */
#define NOTHING 0xFF            /* each byte of floats that are none */

#define MOST_CLUSTER 2
#define POOL_STEP (256 << 10) /* from one block's shared memory to the next one's */

_Thread_local int pock_block, pock_thread, pock_fiber;
_Thread_local char *pock_pool;

/* What a fiber is, while another one runs: the top of its stack, where its registers are. */
typedef struct {
    void *top;
    int ended, meetings; /* `meetings`: how often its warp was waited for */
} fiber;

/* Threads at a barrier, and barriers that all have passed. */
typedef struct {
    int arrived, passed;
} meeting;

static _Thread_local struct {
    char *stacks; /* kept from launch to launch */
    fiber fibers[MOST_THREADS];
    void *scheduler;
    void (*body)(void *const *arg);
    void *const *arg;
    char *pools; /* of all blocks that run together */
    int threads, live, cluster;
    meeting barriers[MOST_CLUSTER + 1]; /* of each block, and of all */
    meeting turns[MOST_CLUSTER][POCK_MOST_TURNS + 1];
    int moved; /* since the scheduler looked, some thread has gone on */
} block;

/* Saves the registers that functions keep, and the top of the stack in *from; goes on where `to` was left. */
#define UNUSED __attribute__((unused))
__attribute__((naked, noinline)) static void change(UNUSED void **from, UNUSED void *to) {
#if defined(__x86_64__)
    __asm__("pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
            "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
            "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
#elif defined(__aarch64__)
    __asm__("sub sp, sp, #160\n stp x19, x20, [sp]\n stp x21, x22, [sp, #16]\n stp x23, x24, [sp, #32]\n"
            "stp x25, x26, [sp, #48]\n stp x27, x28, [sp, #64]\n stp x29, x30, [sp, #80]\n stp d8, d9, [sp, #96]\n"
            "stp d10, d11, [sp, #112]\n stp d12, d13, [sp, #128]\n stp d14, d15, [sp, #144]\n"
            "mov x2, sp\n str x2, [x0]\n mov sp, x1\n"
            "ldp x19, x20, [sp]\n ldp x21, x22, [sp, #16]\n ldp x23, x24, [sp, #32]\n ldp x25, x26, [sp, #48]\n"
            "ldp x27, x28, [sp, #64]\n ldp x29, x30, [sp, #80]\n ldp d8, d9, [sp, #96]\n ldp d10, d11, [sp, #112]\n"
            "ldp d12, d13, [sp, #128]\n ldp d14, d15, [sp, #144]\n add sp, sp, #160\n ret\n");
#else
#error "fibers are written for x86-64 and aarch64"
#endif
}

static void to_scheduler(void) {
    change(&block.fibers[pock_fiber].top, block.scheduler);
}

/* Where a fiber begins. */
static void run(void) {
    block.moved = 1;
    block.body(block.arg);
    block.fibers[pock_fiber].ended = 1;
    block.live--;
    to_scheduler();
    abort();
}

/* A stack as `change` leaves one, of a fiber that is about to begin. */
static void *fresh(char *stack) {
    uintptr_t *end = (uintptr_t *)(void *)(stack + STACK_BYTES);
#if defined(__x86_64__)
    end -= 8; /* six registers, the address of `run`, and what a call would have left */
    for (int i = 0; i < 8; i++) {
        end[i] = 0;
    }
    end[6] = (uintptr_t)run;
#else
    end -= 20;
    for (int i = 0; i < 20; i++) {
        end[i] = 0;
    }
    end[11] = (uintptr_t)run;
#endif
    return end;
}

void pock_pause(void) {
    to_scheduler();
}

void pock_moved(void) {
    block.moved = 1;
}

static void meet(meeting *at, int threads, int waits) {
    int passed = at->passed;
    block.moved = 1;
    if (++at->arrived == threads) {
        at->arrived = 0;
        at->passed++;
    }
    if (waits) {
        do {
            pock_pause();
        } while (at->passed == passed);
    }
}

void pock_barrier(void) {
    meet(&block.barriers[pock_fiber / block.threads], block.threads, 1);
}

void pock_cluster_barrier(void) {
    meet(&block.barriers[MOST_CLUSTER], block.threads * block.cluster, 1);
}

void pock_turn(int which, int threads, int waits) {
    if (which < 1 || which > POCK_MOST_TURNS) {
        fprintf(stderr, "a GPU has barriers 1 to %d beside that of a block, not %d\n", POCK_MOST_TURNS, which);
        abort();
    }
    meet(&block.turns[pock_fiber / block.threads][which], threads, waits);
}

void *pock_of_block(const void *at, int rank) {
    return (char *)(uintptr_t)at + (ptrdiff_t)(rank - pock_fiber / block.threads) * POOL_STEP;
}

void pock_meet_warp(void) {
    int first = pock_fiber / WARP * WARP, met = ++block.fibers[pock_fiber].meetings;
    block.moved = 1;
    for (int i = first; i < first + WARP && i < block.threads * block.cluster; i++) {
        while (block.fibers[i].meetings < met) {
            pock_pause();
        }
    }
}

/* Each thread of some blocks, from `first` on, in turn from one wait to the next. */
static void run_blocks(int first, int threads, int cluster) {
    int all = threads * cluster;
    if (all > MOST_THREADS || cluster > MOST_CLUSTER) {
        fprintf(stderr, "%d blocks of %d threads cannot run together\n", cluster, threads);
        abort();
    }
    for (int i = 0; i < all; i++) {
        block.fibers[i] = (fiber){fresh(block.stacks + (size_t)i * STACK_BYTES), 0, 0};
    }
    block.threads = threads;
    block.cluster = cluster;
    block.live = all;
    memset(block.barriers, 0, sizeof block.barriers);
    memset(block.turns, 0, sizeof block.turns);
    while (block.live) {
        int live = block.live;
        block.moved = 0;
        for (int turn = 0; turn < all; turn++) {
            pock_fiber = first / cluster % 2 ? all - 1 - turn : turn; /* what one order hides, the other shows */
            int rank = pock_fiber / threads;
            pock_thread = pock_fiber % threads;
            pock_block = first + rank;
            pock_pool = block.pools ? block.pools + (size_t)rank * POOL_STEP + AT : NULL;
            if (!block.fibers[pock_fiber].ended) {
                change(&block.scheduler, block.fibers[pock_fiber].top);
            }
        }
        if (!block.moved && block.live == live) {
            fprintf(stderr, "threads of a block wait for others that %s\n", live < all ? "have ended" : "wait for them");
            abort();
        }
    }
}

/* Memory that is kept from launch to launch. */
static void *taken(size_t bytes, const char *what) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "not enough memory for %s of a block\n", what);
        abort();
    }
    return memory;
}

static void fill_pools(int cluster, int shared) {
    for (int rank = 0; rank < cluster; rank++) {
        memset(block.pools + (size_t)rank * POOL_STEP + AT, NOTHING, (size_t)shared + BEYOND);
    }
}

static void check_pools(int cluster, int shared) {
    for (int i = 0; i < cluster * BEYOND; i++) {
        if ((unsigned char)block.pools[(size_t)(i / BEYOND) * POOL_STEP + AT + (size_t)(shared + i % BEYOND)] != NOTHING) {
            fprintf(stderr, "a block writes beyond its shared memory of %d bytes\n", shared);
            abort();
        }
    }
}

void pock_emulate(void (*body)(void *const *arg), void *const *arg, int blocks, int threads, int cluster, int shared) {
    if (cluster && !block.stacks) {
        block.stacks = taken((size_t)MOST_THREADS * STACK_BYTES, "the stacks");
    }
    if (shared && !block.pools) {
        block.pools = taken((size_t)MOST_CLUSTER * POOL_STEP, "the shared memory");
    }
    if (shared > MOST_SHARED) {
        fprintf(stderr, "no GPU gives a block %d bytes of shared memory\n", shared);
        abort();
    }
    block.body = body;
    block.arg = arg;
    pock_fiber = 0;
    for (int first = 0; first < blocks; first += cluster ? cluster : 1) {
        if (shared) {
            fill_pools(cluster ? cluster : 1, shared);
        }
        if (cluster) {
            run_blocks(first, threads, cluster);
            if (shared) {
                check_pools(cluster, shared);
            }
            pock_tensor_copies_end();
            pock_groups_end();
            continue;
        }
        pock_block = first;
        pock_pool = shared ? block.pools + AT : NULL;
        for (pock_thread = 0; pock_thread < threads; pock_thread++) {
            body(arg);
        }
    }
}

void pock_copy_run(void *to, const void *from, const void *aligned, size_t bytes) {
    if ((uintptr_t)aligned % bytes || bytes > 16) {
        fprintf(stderr, "a run of %zu bytes does not lie at a multiple of them, or is too long\n", bytes);
        abort();
    }
    memcpy(to, from, bytes);
}

void pock_texel(const pock_texels *of, int64_t at, uint32_t *to) {
    if ((uintptr_t)of->first % POCK_TEXEL || at < 0 || at >= of->count) {
        fprintf(stderr, "texel %lld of %lld is read, or they do not begin at a multiple of their bytes\n", (long long)at,
                (long long)of->count);
        abort();
    }
    memcpy(to, of->first + at * POCK_TEXEL, POCK_TEXEL);
}
