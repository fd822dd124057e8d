/* A pack of trials: candidates of many workloads in one program that looks to a device like any model's executable.
 *
 *   model bench --steps ROUNDS --params P.safetensors [--threads T] [--report R.json]
 *
 * Operands are made here; what results must be lies in P, as the only tensor. The last line on stdout has the report: for
 * each candidate how many of its numbers are wrong, whether it left its memory, and its milliseconds, taken in turns. */
#include "platform.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "json.h"
#include "trials.h"
#include "turns.h"

#define STEADY_SAMPLES 8 /* least number of times that a fixed piece of work is taken, to see how steady the device is */
#define STEADY_RUNS 5 /* of which each is the least */
#define STEADY_LINKS 100000
#define MOST_ROUNDS 1000
#define MOST_HEADER (1u << 20)

typedef struct {
    const char *params, *report;
    long rounds;
    uint32_t threads;
} request;

typedef struct {
    request asked;
    pock_ground ground;
    float *wanted;
    double *ms, *steady;
    size_t steady_count;
    pock_json listed;
} session;

/* A whole number below `choices`: the finaliser of Wellons' lowbias32, and the high half of a product. */
static uint32_t pick(uint32_t x, uint64_t choices) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (uint32_t)(((uint64_t)x * choices) >> 32);
}

static void fill(const pock_operand *operand, char *into) {
    const char *values = operand->values;
    char *at = into + operand->offset;
    for (uint64_t i = 0; i < operand->count; i++) {
        uint32_t chosen = pick(operand->seed + (uint32_t)i, operand->choices);
        if (operand->bytes) {
            memcpy(at + i * operand->bytes, values + (size_t)chosen * operand->bytes, operand->bytes);
        } else if (i % 8) {
            at[i / 8] = (char)(at[i / 8] | (char)(chosen << (i % 8)));
        } else {
            at[i / 8] = (char)chosen;
        }
    }
}

static double half(uint16_t bits) {
    int exponent = (bits >> 10) & 31;
    double fraction = bits & 1023;
    double size = exponent == 31 ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                  : exponent     ? ldexp(1 + fraction / 1024, exponent - 15)
                                 : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

#define READ(type) \
    { \
        type value; \
        memcpy(&value, at + i * sizeof value, sizeof value); \
        return (double)value; \
    }

static double element(const char *at, uint8_t kind, uint64_t i) {
    switch (kind) {
    case POCK_AS_F32:
        READ(float)
    case POCK_AS_F64:
        READ(double)
    case POCK_AS_F16: {
        uint16_t bits;
        memcpy(&bits, at + i * 2, 2);
        return half(bits);
    }
    case POCK_AS_BF16: {
        uint32_t bits = 0;
        float value;
        memcpy((char *)&bits + 2, at + i * 2, 2);
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    case POCK_AS_I8:
        READ(int8_t)
    case POCK_AS_U8:
        READ(uint8_t)
    case POCK_AS_I32:
        READ(int32_t)
    case POCK_AS_I64:
        READ(int64_t)
    default:
        return (double)((at[i / 8] >> (i % 8)) & 1);
    }
}

static int near(double got, double want, const pock_result *result) {
    if (result->element > POCK_AS_BF16) {
        return !(got < want) && !(got > want);
    }
    return fabs(got - want) <= pock_relative * fabs(want) + result->slack || (isnan(got) && isnan(want)) ||
           (isinf(got) && isinf(want) && (got > 0) == (want > 0));
}

static uint64_t count_wrong(const pock_result *result, const char *arena, const float *wanted) {
    uint64_t wrong = 0;
    for (uint32_t i = 0; i < result->checked; i++) {
        uint64_t at = result->checked == result->count ? i : pick(result->seed + i, result->count);
        double got = element(arena + result->offset, result->element, at);
        int right = 0;
        for (uint32_t other = 0; other < result->alternatives && !right; other++) {
            right = near(got, (double)wanted[result->first + (uint64_t)other * result->checked + i], result);
        }
        wrong += !right;
    }
    return wrong;
}

static int take_number(const char *name, const char *text, long most, long *value, pock_error *error) {
    char *end = NULL;
    errno = 0;
    *value = strtol(text, &end, 10);
    return *end || errno || *value < 1 || *value > most
               ? pock_fail(error, POCK_USAGE, "%s takes a whole number from 1 to %ld, not '%s'", name, most, text)
               : POCK_OK;
}

static int parse(request *asked, int count, char **argument, pock_error *error) {
    long threads = (long)pock_most_threads;
    if (count < 2 || strcmp(argument[1], "bench") != 0) {
        return pock_fail(error, POCK_USAGE, "this program has trials of kernels: all it does is 'bench'");
    }
    for (int i = 2; i < count; i += 2) {
        const char *name = argument[i], *value = i + 1 < count ? argument[i + 1] : NULL;
        int code = value ? POCK_OK : pock_fail(error, POCK_USAGE, "%s needs a value", name);
        if (code) {
            return code;
        }
        if (strcmp(name, "--params") == 0) {
            asked->params = value;
        } else if (strcmp(name, "--report") == 0) {
            asked->report = value;
        } else if (strcmp(name, "--steps") == 0) {
            code = take_number(name, value, MOST_ROUNDS, &asked->rounds, error);
        } else if (strcmp(name, "--threads") == 0) {
            code = take_number(name, value, (long)pock_most_threads, &threads, error);
        } else {
            code = pock_fail(error, POCK_USAGE, "trials have no option '%s'", name);
        }
        if (code) {
            return code;
        }
    }
    asked->threads = (uint32_t)threads;
    return asked->params && asked->rounds ? POCK_OK : pock_fail(error, POCK_USAGE, "trials need --steps and --params");
}

/* The numbers that results are compared with: the contents of a safetensors file with one tensor. */
static int read_wanted(session *own, pock_error *error) {
    const char *path = own->asked.params;
    int descriptor = -1;
    uint64_t bytes = 0, header = 0, nbytes = pock_wanted_count * sizeof(float);
    int code = pock_file_open(path, &descriptor, &bytes, error);
    code = code ? code : pock_file_read(descriptor, path, &header, sizeof header, 0, error);
    if (!code && (header > MOST_HEADER || bytes != 8 + header + nbytes)) {
        code = pock_fail(error, POCK_BAD_DATA, "'%s' is not the file that belongs to these trials", path);
    }
    if (!code) {
        own->wanted = malloc((size_t)nbytes + 1);
        code = own->wanted ? pock_file_read(descriptor, path, own->wanted, (size_t)nbytes, 8 + header, error)
                           : pock_fail(error, POCK_MEMORY, "out of memory");
    }
    if (descriptor >= 0) {
        close(descriptor);
    }
    return code;
}

/* A chain of dependent operations: takes as many cycles on each call. */
static double chain(void) {
    volatile double from = 1;
    double x = from;
    for (int i = 0; i < STEADY_LINKS; i++) {
        x = x * 0.999 + 0.001;
    }
    from = x;
    return x;
}

/* One sample of how quick the device is now: the least of a few runs of a fixed piece of work. */
static void sample(session *own) {
    double least = INFINITY;
    for (int i = 0; i < STEADY_RUNS; i++) {
        double start = pock_now_ms();
        (void)chain();
        double ms = pock_now_ms() - start;
        least = ms < least ? ms : least;
    }
    own->steady[own->steady_count++] = least;
}

static void write_candidate(session *own, uint32_t index, uint32_t number, uint64_t wrong, int overrun) {
    pock_json *json = &own->listed;
    pock_json_open(json, NULL, '{');
    pock_json_integer(json, "workload", index);
    pock_json_integer(json, "candidate", number);
    pock_json_integer(json, "wrong", wrong);
    pock_json_flag(json, "overrun", overrun);
}

static int run_trial(session *own, uint32_t index, pock_error *error) {
    const pock_trial *trial = &pock_trials[index];
    const pock_workload *workload = trial->workload;
    uint32_t count = workload->candidate_count;
    long rounds = own->asked.rounds;
    uint64_t *wrong = calloc(count, sizeof *wrong);
    char *overrun = calloc(count, 1);
    if (!wrong || !overrun) {
        free(wrong);
        free(overrun);
        return pock_fail(error, POCK_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < trial->operand_count; i++) {
        fill(&trial->operands[i], own->ground.space[POCK_INPUT]);
    }
    int code = POCK_OK;
    for (uint32_t number = 0; number < count && !code; number++) {
        code = pock_compute(&own->ground, workload, workload->candidates[number], &overrun[number], error);
        for (uint32_t i = 0; i < trial->result_count; i++) {
            wrong[number] += count_wrong(&trial->results[i], own->ground.space[POCK_ARENA], own->wanted);
        }
    }
    long made = 0;
    code = code ? code : pock_time_in_turns(&own->ground, workload->candidates, (int)count, rounds, pock_budget_ms,
                                            own->ms, &made, error);
    for (uint32_t number = 0; number < count && !code; number++) {
        write_candidate(own, index, number, wrong[number], overrun[number]);
        pock_json_open(&own->listed, "ms", '[');
        for (long round = 0; round < made; round++) {
            pock_json_number(&own->listed, NULL, own->ms[number * rounds + round]);
        }
        pock_json_close(&own->listed, ']');
        pock_json_close(&own->listed, '}');
    }
    free(wrong);
    free(overrun);
    return code;
}

static int emit(pock_json *line, pock_error *error) {
    int failed = line->failed || pock_write_all(STDOUT_FILENO, line->text, line->length) ||
                 pock_write_all(STDOUT_FILENO, "\n", 1);
    pock_json_free(line);
    return failed ? pock_fail(error, POCK_IO, "a line cannot be written") : POCK_OK;
}

static int tell(const char *event, uint32_t done, pock_error *error) {
    pock_json line = {0};
    pock_json_open(&line, NULL, '{');
    pock_json_string(&line, "event", event);
    pock_json_string(&line, "entry", "bench");
    pock_json_integer(&line, "done", done);
    pock_json_integer(&line, "trials", pock_trial_count);
    pock_json_close(&line, '}');
    return emit(&line, error);
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static int finish(session *own, pock_error *error) {
    pock_json report = {0}, line = {0};
    pock_output output = {0};
    pock_json_open(&report, NULL, '{');
    pock_json_string(&report, "entry", "bench");
    pock_json_string(&report, "target", pock_target);
    pock_json_integer(&report, "threads", own->asked.threads);
    pock_json_integer(&report, "steps", own->steady_count);
    pock_json_open(&report, "loss", '[');
    pock_json_close(&report, ']');
    pock_json_open(&report, "step_ms", '{');
    pock_json_open(&report, "samples", '[');
    for (size_t i = 0; i < own->steady_count; i++) {
        pock_json_number(&report, NULL, own->steady[i]);
    }
    pock_json_close(&report, ']');
    qsort(own->steady, own->steady_count, sizeof *own->steady, ascending);
    pock_json_number(&report, "median", own->steady[own->steady_count / 2]);
    pock_json_close(&report, '}');
    pock_json_open(&report, "trials", '[');
    if (own->listed.length) {
        pock_json_raw(&report, NULL, own->listed.text, own->listed.length);
    }
    pock_json_close(&report, ']');
    pock_json_close(&report, '}');
    int code = report.failed || own->listed.failed ? pock_fail(error, POCK_MEMORY, "out of memory") : POCK_OK;
    if (!code && own->asked.report) {
        code = pock_output_open(&output, own->asked.report, error);
        code = code ? code : pock_output_write(&output, report.text, report.length, 0, error);
        code = code ? code : pock_output_commit(&output, error);
        pock_output_abandon(&output);
    }
    if (!code) {
        pock_json_open(&line, NULL, '{');
        pock_json_string(&line, "event", "done");
        pock_json_raw(&line, "report", report.text, report.length);
        pock_json_close(&line, '}');
        code = emit(&line, error);
    }
    pock_json_free(&report);
    return code;
}

static int open_session(session *own, pock_error *error) {
    uint64_t input_bytes = 0, arena_bytes = 0, most = 1;
    for (uint32_t i = 0; i < pock_trial_count; i++) {
        const pock_workload *workload = pock_trials[i].workload;
        input_bytes = workload->input_bytes > input_bytes ? workload->input_bytes : input_bytes;
        arena_bytes = workload->arena_bytes > arena_bytes ? workload->arena_bytes : arena_bytes;
        most = workload->candidate_count > most ? workload->candidate_count : most;
    }
    own->ms = calloc((size_t)most * (size_t)own->asked.rounds, sizeof *own->ms);
    own->steady = calloc(pock_trial_count + STEADY_SAMPLES, sizeof *own->steady);
    if (!own->ms || !own->steady) {
        return pock_fail(error, POCK_MEMORY, "out of memory");
    }
    int code = read_wanted(own, error);
    size_t swept = (size_t)pock_swept_bytes;
    return code ? code : pock_ground_open(&own->ground, input_bytes, arena_bytes, own->asked.threads, swept, error);
}

static int run_all(session *own, pock_error *error) {
    int code = tell("start", 0, error);
    for (int i = 0; i < STEADY_SAMPLES && !code; i++) {
        sample(own);
    }
    for (uint32_t i = 0; i < pock_trial_count && !code; i++) {
        code = run_trial(own, i, error);
        sample(own);
        code = code ? code : tell("trial", i + 1, error);
    }
    return code ? code : finish(own, error);
}

int main(int count, char **argument) {
    session own = {0};
    pock_error error = {0};
    int code = parse(&own.asked, count, argument, &error);
    code = code ? code : open_session(&own, &error);
    code = code ? code : run_all(&own, &error);
    pock_ground_close(&own.ground);
    pock_json_free(&own.listed);
    free(own.wanted);
    free(own.ms);
    free(own.steady);
    if (code) {
        fprintf(stderr, "%s\n", error.text);
    }
    return code;
}
