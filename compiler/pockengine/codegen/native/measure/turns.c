#include "platform.h"

#include "turns.h"

#if defined(__linux__)
#include <sched.h>
#endif
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define GUARD 4096 /* bytes beyond the arena that no kernel may change */
#define UNTOUCHED 0xff /* makes every float a NaN */
#define MARK 0xa5
#define LEAST_ROUNDS 3
#define LINE 64

double pock_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Puts thread `task` onto the task-th core that the process may use. */
static void pin(void *const *arg, int task, int tasks) {
    (void)tasks;
#if defined(__linux__)
    const cpu_set_t *allowed = arg[0];
    cpu_set_t chosen;
    CPU_ZERO(&chosen);
    int left = task % (CPU_COUNT(allowed) ? CPU_COUNT(allowed) : 1);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, allowed) && left-- == 0) {
            CPU_SET(core, &chosen);
            (void)sched_setaffinity(0, sizeof chosen, &chosen);
            return;
        }
    }
#else
    (void)arg;
    (void)task;
#endif
}

/* Reads and writes an area of the task's own, so that operands leave the caches next to the core. */
static void sweep(void *const *arg, int task, int tasks) {
    const pock_ground *ground = arg[0];
    volatile char *own = ground->area + ground->swept * (size_t)task;
    (void)tasks;
    for (size_t i = 0; i < ground->swept; i += LINE) {
        own[i] = (char)(own[i] + 1);
    }
}

static void on_all(pock_pool *pool, pock_kernel kernel, void *argument) {
    void *arg[] = {argument};
    if (pool) {
        pock_pool_run(pool, kernel, arg);
    } else {
        kernel(arg, 0, 1);
    }
}

static void pin_all(pock_pool *pool) {
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        on_all(pool, pin, &allowed);
    }
#else
    (void)pool;
#endif
}

/* Room for a space and its guard; the page behind ends whoever writes there, before he changes what others read. */
static int allocate(pock_ground *ground, int space, uint64_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (size_t)(bytes + GUARD + page - 1) / page * page;
    void *memory = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return 1;
    }
    ground->space[space] = memory;
    ground->mapped[space] = room + page;
    return mprotect((char *)memory + room, page, PROT_NONE);
}

/* A device has a buffer for each space, none of which may be empty; the page behind them is not its own. */
static int open_device(pock_ground *ground, pock_error *error) {
    size_t bytes[POCK_SPACES];
    for (int space = 0; space < POCK_SPACES; space++) {
        if (!ground->space[space] && allocate(ground, space, 0)) {
            return pock_fail(error, POCK_MEMORY, "out of memory");
        }
        bytes[space] = ground->mapped[space] - (size_t)sysconf(_SC_PAGESIZE);
    }
    ground->model = (pock_model){.name = "measuring"};
    ground->model.space_bytes[POCK_INPUT] = bytes[POCK_INPUT];
    return pock_device_open(&ground->device, &ground->model, ground->space, bytes, error);
}

int pock_ground_open(pock_ground *ground, uint64_t input_bytes, uint64_t arena_bytes, uint32_t threads, size_t swept,
                     pock_error *error) {
    ground->swept = swept;
    ground->area = calloc(threads, swept + LINE);
    if (!ground->area || allocate(ground, POCK_INPUT, input_bytes) || allocate(ground, POCK_ARENA, arena_bytes)) {
        return pock_fail(error, POCK_MEMORY, "out of memory");
    }
    int code = pock_pool_open(&ground->pool, threads, error);
    if (!code) {
        pin_all(ground->pool);
        code = open_device(ground, error);
    }
    return code;
}

void pock_ground_close(pock_ground *ground) {
    pock_device_close(ground->device);
    pock_pool_close(ground->pool);
    free(ground->area);
    for (int space = 0; space < POCK_SPACES; space++) {
        if (ground->space[space]) {
            munmap(ground->space[space], ground->mapped[space]);
        }
    }
    memset(ground, 0, sizeof *ground);
}

static int run_once(const pock_ground *ground, const pock_program *candidate, int observed, pock_error *error) {
    if (pock_device_begin(ground->device, candidate, observed)) {
        pock_run(candidate, ground->space, ground->pool ? pock_pool_run : NULL, ground->pool, NULL, NULL);
    }
    pock_device_start(ground->device, candidate);
    return pock_device_end(ground->device, error);
}

/* Milliseconds of one run, caches as they are: those of its kernels where the device tells, without what is sent and
 * brought back. */
static int time_once(const pock_ground *ground, const pock_program *candidate, double *ms, pock_error *error) {
    double start = pock_now_ms();
    int code = run_once(ground, candidate, ground->timed, error);
    *ms = ground->timed ? 0 : pock_now_ms() - start;
    for (uint32_t call = 0; ground->timed && call < candidate->call_count; call++) {
        *ms += pock_device_call_ms(ground->device, call);
    }
    return code;
}

static int is_marked(const char *guard) {
    for (size_t i = 0; i < GUARD; i++) {
        if ((unsigned char)guard[i] != MARK) {
            return 0;
        }
    }
    return 1;
}

int pock_compute(pock_ground *ground, const pock_workload *workload, const pock_program *candidate, char *overrun,
                 pock_error *error) {
    char *guard = ground->space[POCK_ARENA] + workload->arena_bytes;
    memset(ground->space[POCK_ARENA], UNTOUCHED, (size_t)workload->arena_bytes);
    memset(guard, MARK, GUARD);
    int code = run_once(ground, candidate, 1, error);
    ground->timed = pock_device_call_ms(ground->device, 0) >= 0;
    *overrun = (char)!is_marked(guard);
    return code;
}

int pock_time_in_turns(const pock_ground *ground, const pock_program *const *candidates, int count, long rounds,
                       double budget_ms, double *ms, long *done, pock_error *error) {
    int code = POCK_OK;
    long round = 0;
    double start = pock_now_ms();
    for (; !code && round < rounds && (round < LEAST_ROUNDS || pock_now_ms() - start < budget_ms); round++) {
        for (int i = 0; i < count && !code; i++) {
            int turn = (int)((i + round) % count);
            on_all(ground->pool, sweep, (void *)(uintptr_t)ground);
            code = time_once(ground, candidates[turn], &ms[turn * rounds + round], error);
        }
    }
    *done = round;
    return code;
}
