/* The measuring program: runs the candidates of one workload on the same inputs, writes what each computes, then times
 * them in turn, each from cold second-level caches.
 *
 *   measure WORKLOAD INPUTS FOLDER THREADS ROUNDS BUDGET_MS EVICT_BYTES CANDIDATE...
 *
 * One JSON object per candidate on stdout; the outputs go to FOLDER/CANDIDATE. With 0 rounds nothing is timed. */
#include "platform.h"

#include <stdio.h>
#include <stdlib.h>

#include "turns.h"

static int fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
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
    const pock_program **candidates;
} request;

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
        .candidates = calloc((size_t)count, sizeof(const pock_program *)),
    };
    for (int i = 0; i < asked->chosen; i++) {
        long number = strtol(asked->numbers[i], NULL, 10);
        if (!asked->candidates || number < 0 || (uint64_t)number >= asked->workload->candidate_count) {
            return fail("there is no such candidate");
        }
        asked->candidates[i] = asked->workload->candidates[number];
    }
    return 0;
}

/* Runs each candidate on an untouched arena and writes what it computed; `overrun` says which ones left their memory. */
static int compute(const request *asked, pock_ground *ground, char *overrun) {
    for (int i = 0; i < asked->chosen; i++) {
        pock_error error;
        if (pock_compute(ground, asked->workload, asked->candidates[i], &overrun[i], &error)) {
            return fail(error.text);
        }
        if (write_outputs(asked->folder, asked->numbers[i], ground->space[POCK_ARENA], asked->workload->output_bytes)) {
            return fail("cannot write the outputs");
        }
    }
    return 0;
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
    pock_ground ground = {0};
    if (parse(count, argument, &asked)) {
        return 1;
    }
    double *ms = calloc((size_t)asked.chosen * (size_t)(asked.rounds + 1), sizeof *ms);
    char *overrun = calloc((size_t)asked.chosen, 1);
    if (!ms || !overrun) {
        return fail("out of memory");
    }
    const pock_workload *workload = asked.workload;
    if (pock_ground_open(&ground, workload->input_bytes, workload->arena_bytes, asked.threads, asked.evict_bytes, &error)) {
        return fail(error.text);
    }
    if (read_inputs(asked.inputs, ground.space[POCK_INPUT], workload->input_bytes)) {
        return fail("cannot read the inputs");
    }
    int code = compute(&asked, &ground, overrun);
    long rounds = 0;
    if (!code && pock_time_in_turns(&ground, asked.candidates, asked.chosen, asked.rounds, asked.budget_ms, ms, &rounds,
                                    &error)) {
        code = fail(error.text);
    }
    if (!code) {
        print(&asked, overrun, ms, rounds);
    }
    pock_ground_close(&ground);
    return code;
}
