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

static int write_outputs(const char *folder, const char *name, const char *from, uint64_t bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
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

/* What the command line asks for. */
typedef struct {
    const pock_workload *workload;
    const char *inputs, *folder;
    uint32_t threads;
    long rounds;
    double budget_ms;
    size_t evict_bytes;
    int chosen;
    char **numbers;
} request;

static const pock_program *candidate(const request *asked, int i) {
    return asked->workload->candidates[strtol(asked->numbers[i], NULL, 10)];
}

static int parse(int count, char **argument, request *asked) {
    if (count < 9) {
        return fail("usage: measure WORKLOAD INPUTS FOLDER THREADS ROUNDS BUDGET_MS EVICT_BYTES CANDIDATE...");
    }
    unsigned long index = strtoul(argument[1], NULL, 10);
    if (index >= pock_workload_count) {
        return fail("there is no such workload");
    }
    *asked = (request){
        .workload = &pock_workloads[index],
        .inputs = argument[2],
        .folder = argument[3],
        .threads = (uint32_t)strtoul(argument[4], NULL, 10),
        .rounds = strtol(argument[5], NULL, 10),
        .budget_ms = strtod(argument[6], NULL),
        .evict_bytes = (size_t)strtoull(argument[7], NULL, 10),
        .chosen = count - 8,
        .numbers = argument + 8,
    };
    for (int i = 0; i < asked->chosen; i++) {
        long number = strtol(asked->numbers[i], NULL, 10);
        if (number < 0 || (uint64_t)number >= asked->workload->candidate_count) {
            return fail("there is no such candidate");
        }
    }
    return 0;
}

/* Runs each candidate on an untouched arena and writes what it computed; `overrun` says which ones left their memory. */
static int compute(const request *asked, char *const space[POCK_SPACES], pock_pool *pool, char *overrun) {
    const pock_workload *workload = asked->workload;
    char *guard = space[POCK_ARENA] + workload->arena_bytes;
    for (int i = 0; i < asked->chosen; i++) {
        memset(space[POCK_ARENA], UNTOUCHED, (size_t)workload->arena_bytes);
        memset(guard, MARK, GUARD);
        run_once(candidate(asked, i), space, pool);
        overrun[i] = (char)!is_marked(guard);
        if (write_outputs(asked->folder, asked->numbers[i], space[POCK_ARENA], workload->output_bytes)) {
            return fail("cannot write the outputs");
        }
    }
    return 0;
}

/* Times the candidates in turn, each round beginning with another one; returns the number of rounds. */
static long measure(const request *asked, char *const space[POCK_SPACES], pock_pool *pool, sweep_area *area,
                    double *ms) {
    long round = 0;
    double start = now_ms();
    for (; round < asked->rounds && (round < LEAST_ROUNDS || now_ms() - start < asked->budget_ms); round++) {
        for (int i = 0; i < asked->chosen; i++) {
            int turn = (int)((i + round) % asked->chosen);
            on_all(pool, sweep, area);
            ms[turn * asked->rounds + round] = run_once(candidate(asked, turn), space, pool);
        }
    }
    return round;
}

static void print(const request *asked, const char *overrun, const double *ms, long rounds) {
    for (int i = 0; i < asked->chosen; i++) {
        printf("{\"candidate\": %s, \"overrun\": %s, \"ms\": [", asked->numbers[i], overrun[i] ? "true" : "false");
        for (long round = 0; round < rounds; round++) {
            printf("%s%.6f", round ? ", " : "", ms[i * asked->rounds + round]);
        }
        printf("]}\n");
    }
}

int main(int count, char **argument) {
    request asked;
    pock_error error;
    pock_pool *pool = NULL;
    char *space[POCK_SPACES] = {0};
    if (parse(count, argument, &asked)) {
        return 1;
    }
    sweep_area area = {calloc(asked.threads, asked.evict_bytes + LINE), asked.evict_bytes};
    double *ms = calloc((size_t)asked.chosen * (size_t)(asked.rounds + 1), sizeof *ms);
    char *overrun = calloc((size_t)asked.chosen, 1);
    space[POCK_INPUT] = allocate(asked.workload->input_bytes);
    space[POCK_ARENA] = allocate(asked.workload->arena_bytes);
    if (!area.memory || !ms || !overrun || !space[POCK_INPUT] || !space[POCK_ARENA]) {
        return fail("out of memory");
    }
    if (pock_pool_open(&pool, asked.threads, &error)) {
        return fail(error.text);
    }
    if (read_inputs(asked.inputs, space[POCK_INPUT], asked.workload->input_bytes)) {
        return fail("cannot read the inputs");
    }
    pin_all(pool);
    int code = compute(&asked, space, pool, overrun);
    if (!code) {
        print(&asked, overrun, ms, measure(&asked, space, pool, &area, ms));
    }
    pock_pool_close(pool);
    return code;
}
