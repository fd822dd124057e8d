#include "platform.h"

#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(POCK_TILES)
#include <sys/syscall.h>
#endif

#define LINE 128            /* bytes two threads never share by accident */
/* Looks before a thread goes to sleep, some 50 to 100 microseconds: waking it would cost about as much. */
#if defined(__aarch64__)
#define SPINS 6000
#else
#define SPINS 1500
#endif
#define STACK_BYTES 1048576u /* address space, not memory; some systems put all thread-local variables there too */

/* A worker's share of each job is its own, so that it finds its part of the data in its caches; a share that its worker
   has not `taken` (the last round in which somebody did) when the caller is done with the first one, the caller does. */
typedef struct {
    _Alignas(LINE) atomic_uint taken;
    pthread_t thread;
    pock_pool *pool;
    int share;
} worker;

/* `round` counts jobs; a worker looks for its share when it changes. `left` counts shares that are not done. */
struct pock_pool {
    _Alignas(LINE) atomic_uint round;
    _Alignas(LINE) atomic_int left;
    _Alignas(LINE) atomic_int sleepers;
    atomic_int caller_sleeps, closing;
    pock_kernel kernel;
    void *const *arg;
    int tasks, spins, started;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    worker workers[];
};

uint32_t pock_cores(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int allowed = CPU_COUNT(&set);
        return allowed > 0 ? (uint32_t)allowed : 1;
    }
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* Waits until the round is no longer `seen`: first looking, then asleep. */
static unsigned next_round(pock_pool *pool, unsigned seen) {
    for (int spin = 0; spin < pool->spins; spin++) {
        unsigned now = atomic_load_explicit(&pool->round, memory_order_acquire);
        if (now != seen) {
            return now;
        }
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->round) == seen) {
        pthread_cond_wait(&pool->work, &pool->mutex);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
    return atomic_load(&pool->round);
}

/* Whether a worker's share of a round is the calling thread's to do: nobody took it before. All shares of a round are
   taken before the next one starts, so a worker that comes late finds another number and does nothing. */
static int take(worker *one, unsigned round) {
    unsigned before = round - 1;
    return atomic_compare_exchange_strong(&one->taken, &before, round);
}

static void finish_share(pock_pool *pool) {
    if (atomic_fetch_sub(&pool->left, 1) == 1 && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->mutex);
    }
}

static void *work(void *argument) {
    worker *self = argument;
    pock_pool *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        seen = next_round(pool, seen);
        if (atomic_load(&pool->closing)) {
            return NULL;
        }
        if (take(self, seen)) {
            pool->kernel(pool->arg, self->share, pool->tasks);
            finish_share(pool);
        }
    }
}

/* Sequentially consistent order makes this safe: either the caller sees a sleeper, or the sleeper sees the new round. */
static void start_round(pock_pool *pool) {
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->mutex);
    }
}

static void wait_for_workers(pock_pool *pool) {
    for (int spin = 0; spin < pool->spins; spin++) {
        if (!atomic_load_explicit(&pool->left, memory_order_acquire)) {
            return;
        }
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, 1);
    while (atomic_load(&pool->left)) {
        pthread_cond_wait(&pool->done, &pool->mutex);
    }
    atomic_store(&pool->caller_sleeps, 0);
    pthread_mutex_unlock(&pool->mutex);
}

void pock_pool_run(void *context, pock_kernel kernel, void *const *arg) {
    pock_pool *pool = context;
    pool->kernel = kernel;
    pool->arg = arg;
    atomic_store(&pool->left, pool->tasks - 1);
    start_round(pool);
    kernel(arg, 0, pool->tasks);
    unsigned round = atomic_load_explicit(&pool->round, memory_order_relaxed);
    for (int share = 1; share < pool->tasks; share++) {
        if (take(&pool->workers[share - 1], round)) {
            kernel(arg, share, pool->tasks);
            atomic_fetch_sub(&pool->left, 1);
        }
    }
    wait_for_workers(pool);
}

static int start_workers(pock_pool *pool, pock_error *error) {
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    failed = failed ? failed : pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int share = 1; share < pool->tasks && !failed; share++) {
        worker *one = &pool->workers[share - 1];
        one->pool = pool;
        one->share = share;
        failed = pthread_create(&one->thread, &attributes, work, one);
        pool->started += !failed;
    }
    pthread_attr_destroy(&attributes);
    return failed ? pock_fail(error, POCK_MEMORY, "cannot start %d threads: %s; ask for fewer with --threads",
                              pool->tasks, strerror(failed))
                  : POCK_OK;
}

/* Linux gives a process the registers of AMX tiles when it asks, before its first instruction on them. */
static int allow_tiles(pock_error *error) {
#if defined(POCK_TILES)
    enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 };
    if (syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) != 0) {
        return pock_fail(error, POCK_USAGE, "this system does not let programs use AMX tiles: compile the model on it, "
                                            "or for 'x86-64-v3'");
    }
#endif
    (void)error;
    return POCK_OK;
}

int pock_pool_open(pock_pool **pool, uint32_t threads, pock_error *error) {
    void *memory = NULL;
    *pool = NULL;
    int code = allow_tiles(error);
    if (code || threads < 2) {
        return code;
    }
    size_t bytes = sizeof(pock_pool) + threads * sizeof(worker);
    if (posix_memalign(&memory, LINE, (bytes + LINE - 1) / LINE * LINE) != 0) {
        return pock_fail(error, POCK_MEMORY, "out of memory starting threads");
    }
    memset(memory, 0, bytes);
    pock_pool *made = memory;
    made->tasks = (int)threads;
    made->spins = threads <= pock_cores() ? SPINS : 0; /* with fewer cores than threads, spinning keeps work waiting */
    pthread_mutex_init(&made->mutex, NULL);
    pthread_cond_init(&made->work, NULL);
    pthread_cond_init(&made->done, NULL);
    code = start_workers(made, error);
    if (code) {
        pock_pool_close(made);
        return code;
    }
    *pool = made;
    return POCK_OK;
}

void pock_pool_close(pock_pool *pool) {
    if (!pool) {
        return;
    }
    atomic_store(&pool->closing, 1);
    start_round(pool);
    for (int i = 0; i < pool->started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->done);
    free(pool);
}
