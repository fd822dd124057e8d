/* The measuring program: runs the candidates of one workload on the same inputs, writes what each computes, then times
 * them in turn, each from cold second-level caches.
 *
 *   measure WORKLOAD INPUTS FOLDER THREADS ROUNDS BUDGET_MS EVICT_BYTES CANDIDATE...
 *
 * One JSON object per candidate on stdout; the outputs go to FOLDER/CANDIDATE. With 0 rounds nothing is timed. */
#include "platform.h"

#include "measure.h"
#include "threads.h"

#if defined(__linux__)
#include <sched.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GUARD 4096 /* bytes beyond the arena that no kernel may change */
#define UNTOUCHED 0xff /* makes every float a NaN */
#define MARK 0xa5
#define LEAST_ROUNDS 3
#define LINE 64

typedef struct {
    char *memory;
    size_t bytes;
} sweep_area;

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
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
    const sweep_area *area = arg[0];
    volatile char *own = area->memory + area->bytes * (size_t)task;
    (void)tasks;
    for (size_t i = 0; i < area->bytes; i += LINE) {
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

static void *allocate(uint64_t bytes) {
    void *memory = NULL;
    return posix_memalign(&memory, 4096, (size_t)(bytes + GUARD + 4095) / 4096 * 4096) == 0 ? memory : NULL;
}

static int read_inputs(const char *path, char *into, uint64_t bytes) {
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(into, 1, (size_t)bytes, file) : 0;
    if (file) {
        fclose(file);
    }
    return got != bytes;
}

static int write_outputs(const char *folder, long candidate, const char *from, uint64_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%ld", folder, candidate);
    FILE *file = fopen(path, "wb");
    if (!file) {
        return 1;
    }
    size_t written = fwrite(from, 1, (size_t)bytes, file);
    return fclose(file) != 0 || written != bytes;
}

static double run_once(const pock_program *program, char *const space[POCK_SPACES], pock_pool *pool) {
    double start = now_ms();
    pock_run(program, space, pool ? pock_pool_run : NULL, pool, NULL, NULL);
    return now_ms() - start;
}

static int is_marked(const char *guard) {
    for (size_t i = 0; i < GUARD; i++) {
        if ((unsigned char)guard[i] != MARK) {
            return 0;
        }
    }
    return 1;
}

int main(int count, char **argument) {
    if (count < 9) {
        return fail("usage: measure WORKLOAD INPUTS FOLDER THREADS ROUNDS BUDGET_MS EVICT_BYTES CANDIDATE...");
    }
    unsigned long index = strtoul(argument[1], NULL, 10);
    uint32_t threads = (uint32_t)strtoul(argument[4], NULL, 10);
    long most = strtol(argument[5], NULL, 10);
    double budget = strtod(argument[6], NULL);
    sweep_area area = {NULL, (size_t)strtoull(argument[7], NULL, 10)};
    int chosen = count - 8;
    if (index >= pock_workload_count) {
        return fail("there is no such workload");
    }
    const pock_workload *workload = &pock_workloads[index];
    char *space[POCK_SPACES] = {0};
    space[POCK_INPUT] = allocate(workload->input_bytes);
    space[POCK_ARENA] = allocate(workload->arena_bytes);
    double *ms = calloc((size_t)chosen * (size_t)(most + 1), sizeof *ms);
    area.memory = calloc(threads, area.bytes + LINE);
    pock_error error;
    pock_pool *pool = NULL;
    if (!space[POCK_INPUT] || !space[POCK_ARENA] || !ms || !area.memory || pock_pool_open(&pool, threads, &error)) {
        return fail("out of memory");
    }
    if (read_inputs(argument[2], space[POCK_INPUT], workload->input_bytes)) {
        return fail("cannot read the inputs");
    }
    pin_all(pool);
    char *guard = space[POCK_ARENA] + workload->arena_bytes;
    int *overrun = calloc((size_t)chosen, sizeof *overrun);
    for (int i = 0; i < chosen && overrun; i++) {
        long candidate = strtol(argument[8 + i], NULL, 10);
        if (candidate < 0 || (uint64_t)candidate >= workload->candidate_count) {
            return fail("there is no such candidate");
        }
        memset(space[POCK_ARENA], UNTOUCHED, (size_t)workload->arena_bytes);
        memset(guard, MARK, GUARD);
        run_once(workload->candidates[candidate], space, pool);
        overrun[i] = !is_marked(guard);
        if (write_outputs(argument[3], candidate, space[POCK_ARENA], workload->output_bytes)) {
            return fail("cannot write the outputs");
        }
    }
    long rounds = 0;
    for (double start = now_ms(); rounds < most && (rounds < LEAST_ROUNDS || now_ms() - start < budget); rounds++) {
        for (int i = 0; i < chosen; i++) {
            int turn = (int)((i + rounds) % chosen);
            on_all(pool, sweep, &area);
            ms[turn * most + rounds] =
                run_once(workload->candidates[strtol(argument[8 + turn], NULL, 10)], space, pool);
        }
    }
    for (int i = 0; i < chosen && overrun; i++) {
        printf("{\"candidate\": %s, \"overrun\": %s, \"ms\": [", argument[8 + i], overrun[i] ? "true" : "false");
        for (long round = 0; round < rounds; round++) {
            printf("%s%.6f", round ? ", " : "", ms[i * most + round]);
        }
        printf("]}\n");
    }
    pock_pool_close(pool);
    return overrun ? 0 : fail("out of memory");
}
