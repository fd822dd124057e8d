#include "platform.h"

#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__APPLE__)
#include <sys/resource.h>
#endif

double pock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

uint64_t pock_peak_rss(void) {
#if defined(__APPLE__)
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss : 0;
#else
    /* Not getrusage: its peak is inherited from the process that started this one. */
    char line[128];
    unsigned long long kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1) {
            break;
        }
    }
    if (file) {
        fclose(file);
    }
    return kilobytes * 1024;
#endif
}

static int reserve(pock_measured *measured, pock_error *error) {
    if (measured->steps < measured->capacity) {
        return POCK_OK;
    }
    size_t capacity = measured->capacity ? measured->capacity * 2 : 64;
    double *ms = realloc(measured->ms, capacity * sizeof *ms);
    measured->ms = ms ? ms : measured->ms;
    double *loss = realloc(measured->loss, capacity * sizeof *loss);
    measured->loss = loss ? loss : measured->loss;
    if (!ms || !loss) {
        return pock_fail(error, POCK_MEMORY, "out of memory for the measurements of %zu steps", capacity);
    }
    measured->capacity = capacity;
    return POCK_OK;
}

void pock_measured_started(pock_measured *measured) {
    if (measured->cold_start_ms == 0) {
        measured->cold_start_ms = pock_now() - measured->started;
    }
}

int pock_measured_add(pock_measured *measured, double loss, double ms, pock_error *error) {
    int code = reserve(measured, error);
    if (code) {
        return code;
    }
    pock_measured_started(measured);
    measured->ms[measured->steps] = ms;
    measured->loss[measured->steps++] = loss;
    measured->losses = measured->steps;
    return POCK_OK;
}

int pock_measured_evaluation(pock_measured *measured, const pock_evaluation *evaluation, pock_error *error) {
    if (measured->evaluation_count == measured->evaluation_capacity) {
        size_t capacity = measured->evaluation_capacity ? measured->evaluation_capacity * 2 : 16;
        pock_evaluation *grown = realloc(measured->evaluations, capacity * sizeof *grown);
        if (!grown) {
            return pock_fail(error, POCK_MEMORY, "out of memory for the results of %zu evaluations", capacity);
        }
        measured->evaluations = grown;
        measured->evaluation_capacity = capacity;
    }
    measured->evaluations[measured->evaluation_count++] = *evaluation;
    return POCK_OK;
}

int pock_measured_profile(pock_measured *measured, const pock_program *program, pock_error *error) {
    measured->profiled = program;
    measured->call_ms = calloc((program->call_count + 1) * (size_t)PROFILED_STEPS, sizeof *measured->call_ms);
    return measured->call_ms ? POCK_OK : pock_fail(error, POCK_MEMORY, "out of memory for the profile");
}

void pock_measured_free(pock_measured *measured) {
    free(measured->ms);
    free(measured->loss);
    free(measured->call_ms);
    free(measured->evaluations);
    memset(measured, 0, sizeof *measured);
}

void pock_measured_observe(void *context, uint32_t call) {
    pock_measured *measured = context;
    double now = pock_now();
    measured->call_ms[(size_t)call * PROFILED_STEPS + measured->steps % PROFILED_STEPS] = now - measured->mark;
    measured->mark = now;
}

void pock_measured_from_device(pock_measured *measured, const pock_machine *machine) {
    for (uint32_t call = 0; call < measured->profiled->call_count; call++) {
        double ms = pock_device_call_ms(machine->device, call);
        if (ms >= 0) {
            measured->call_ms[(size_t)call * PROFILED_STEPS + measured->steps % PROFILED_STEPS] = ms;
        }
    }
}

static int ascending(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The quantile of sorted values, between neighbours linear (as numpy's default). */
static double quantile(const double *sorted, size_t count, double fraction) {
    double position = fraction * (double)(count - 1);
    size_t low = (size_t)position;
    size_t high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (position - (double)low);
}

static void write_numbers(pock_json *json, const char *key, const double *values, size_t count) {
    pock_json_open(json, key, '[');
    for (size_t i = 0; i < count; i++) {
        pock_json_number(json, NULL, values[i]);
    }
    pock_json_close(json, ']');
}

/* The first step warms caches and pages and is reported as the cold start, so it is left out of the quantiles. */
static void write_step_ms(pock_json *json, const pock_measured *measured) {
    size_t skip = measured->steps > 1 && !measured->warmed_up ? 1 : 0;
    size_t count = measured->steps - skip;
    double *sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted) {
        json->failed = 1;
        return;
    }
    pock_json_open(json, "step_ms", '{');
    if (count) {
        memcpy(sorted, measured->ms + skip, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, ascending);
        pock_json_number(json, "median", quantile(sorted, count, 0.5));
        pock_json_number(json, "p10", quantile(sorted, count, 0.1));
        pock_json_number(json, "p90", quantile(sorted, count, 0.9));
    }
    write_numbers(json, "samples", measured->ms, measured->steps);
    pock_json_close(json, '}');
    free(sorted);
}

/* The median of a call's times, which other work on the machine moves less than the mean; sorts them. */
static double call_ms(const pock_measured *measured, uint32_t call) {
    size_t count = measured->steps < PROFILED_STEPS ? measured->steps : PROFILED_STEPS;
    double *own = measured->call_ms + (size_t)call * PROFILED_STEPS;
    qsort(own, count, sizeof *own, ascending);
    return count ? quantile(own, count, 0.5) : 0;
}

static void write_profile(pock_json *json, const pock_measured *measured) {
    pock_json_open(json, "kernels", '[');
    for (uint32_t i = 0; i < measured->profiled->call_count; i++) {
        const pock_call *call = &measured->profiled->calls[i];
        pock_json_open(json, NULL, '{');
        pock_json_string(json, "name", call->name);
        pock_json_string(json, "kernel", call->symbol);
        pock_json_integer(json, "node", call->node);
        pock_json_number(json, "ms", call_ms(measured, i));
        pock_json_number(json, "flops", call->flops);
        pock_json_number(json, "bytes", call->bytes);
        pock_json_close(json, '}');
    }
    pock_json_close(json, ']');
}

static void write_memory(pock_json *json, const pock_model *model) {
    pock_json_integer(json, "arena_bytes", model->space_bytes[POCK_ARENA]);
    pock_json_integer(json, "param_bytes", model->space_bytes[POCK_PARAM]);
    pock_json_integer(json, "state_bytes", model->space_bytes[POCK_STATE]);
    pock_json_integer(json, "const_bytes", model->space_bytes[POCK_CONST]);
    pock_json_integer(json, "input_bytes", model->space_bytes[POCK_INPUT]);
    pock_json_integer(json, "host_bytes", model->space_bytes[POCK_HOST]);
    pock_json_integer(json, "predicted_peak_bytes", model->predicted_peak_bytes);
}

void pock_evaluation_write(pock_json *json, const pock_evaluation *evaluation) {
    if (evaluation->step) {
        pock_json_integer(json, "step", evaluation->step);
        pock_json_integer(json, "epoch", evaluation->epoch);
    }
    pock_json_integer(json, "samples", evaluation->samples);
    pock_json_number(json, "loss", evaluation->loss);
    if (evaluation->accuracy >= 0) {
        pock_json_number(json, "accuracy", evaluation->accuracy);
    }
    if (evaluation->perplexity >= 0) {
        pock_json_number(json, "perplexity", evaluation->perplexity);
    }
    if (evaluation->step) {
        pock_json_flag(json, "best", evaluation->best);
    }
}

void pock_split_write(pock_json *json, const pock_split *split) {
    if (!split->held) {
        return;
    }
    pock_json_open(json, "held_out", '{');
    pock_json_number(json, "share", split->share);
    pock_json_integer(json, "seed", split->seed);
    pock_json_integer(json, "samples", split->held);
    pock_json_integer(json, "of", split->samples);
    pock_json_flag(json, "by_class", split->classes != 0);
    pock_json_close(json, '}');
}

/* Of a training run the loss of each step and every evaluation; of one pass over a dataset its only result. */
static void write_losses(pock_json *json, const pock_measured *measured) {
    const pock_evaluation *first = measured->evaluations;
    if (measured->samples && first) {
        write_numbers(json, "loss", &first->loss, 1);
        if (first->accuracy >= 0) {
            pock_json_number(json, "accuracy", first->accuracy);
        }
        if (first->perplexity >= 0) {
            pock_json_number(json, "perplexity", first->perplexity);
        }
        return;
    }
    write_numbers(json, "loss", measured->loss, measured->losses);
    if (first || measured->best_step) {
        pock_json_open(json, "evaluations", '[');
        for (size_t i = 0; i < measured->evaluation_count; i++) {
            pock_json_open(json, NULL, '{');
            pock_evaluation_write(json, &measured->evaluations[i]);
            pock_json_close(json, '}');
        }
        pock_json_close(json, ']');
        pock_json_flag(json, "stopped_early", measured->stopped_early);
        pock_json_string(json, "ended", measured->ended);
    }
    if (measured->best_step) {
        pock_json_integer(json, "best_step", measured->best_step);
        pock_json_number(json, "best_loss", measured->best_loss);
    }
}

void pock_report_write(pock_json *json, const char *key, const char *entry, const pock_machine *machine,
                       const pock_measured *measured) {
    pock_json_open(json, key, '{');
    pock_json_string(json, "entry", entry);
    pock_json_string(json, "target", machine->model->target);
    pock_json_integer(json, "threads", machine->threads);
    pock_json_integer(json, "steps", measured->steps);
    if (measured->samples) {
        pock_json_integer(json, "samples", measured->samples);
    }
    if (measured->norm_batches) {
        pock_json_integer(json, "norm_batches", measured->norm_batches);
    }
    write_losses(json, measured);
    if (measured->split) {
        pock_split_write(json, measured->split);
    }
    write_step_ms(json, measured);
    pock_json_number(json, "cold_start_ms", measured->cold_start_ms);
    pock_json_integer(json, "peak_rss_bytes", pock_peak_rss());
    write_memory(json, machine->model);
    if (measured->call_ms) {
        write_profile(json, measured);
    }
    pock_json_close(json, '}');
}

static void write_fields(pock_json *json, const pock_tensor *tensor) {
    static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "i8", "u8", "i32", "i64", "bool",
                                         "i16", "u16", "u32", "u64"};
    pock_json_string(json, "name", tensor->name);
    pock_json_string(json, "dtype", dtypes[tensor->dtype]);
    pock_json_shape(json, "shape", tensor->shape, tensor->rank);
    pock_json_integer(json, "nbytes", tensor->nbytes);
}

static void write_input(pock_json *json, const pock_tensor *input) {
    pock_json_open(json, NULL, '{');
    write_fields(json, input);
    pock_json_flag(json, "target", input->target != POCK_NOT_TARGET);
    pock_json_flag(json, "optional", input->target == POCK_SAMPLE_WEIGHT);
    pock_json_close(json, '}');
}

static void write_tensor(pock_json *json, const pock_tensor *tensor, const char *role) {
    pock_json_open(json, NULL, '{');
    write_fields(json, tensor);
    if (role) {
        pock_json_string(json, "role", role);
        pock_json_flag(json, "trained", tensor->trained);
    }
    pock_json_close(json, '}');
}

static void write_tensors(pock_json *json, const pock_tensor *tensors, uint32_t count, const char *role) {
    for (uint32_t i = 0; i < count; i++) {
        write_tensor(json, &tensors[i], role);
    }
}

void pock_info_write(pock_json *json, const pock_model *model) {
    static const char *const last_batches[] = {"wrap", "drop", "partial"};
    const pock_program *forward = model->predict ? model->predict : model->eval;
    pock_json_open(json, NULL, '{');
    pock_json_string(json, "name", model->name);
    pock_json_string(json, "target", model->target);
    pock_json_integer(json, "threads", model->threads);
    pock_json_integer(json, "batch", model->batch);
    pock_json_integer(json, "accumulate", pock_micro_batches(model));
    pock_json_string(json, "last_batch", last_batches[model->last_batch]);
    write_memory(json, model);
    if (model->generate) {
        pock_json_integer(json, "context", (uint64_t)model->generate_inputs[1].limit);
    }
    pock_json_open(json, "inputs", '[');
    for (uint32_t i = 0; i < model->input_count; i++) {
        write_input(json, &model->inputs[i]);
    }
    pock_json_close(json, ']');
    pock_json_open(json, "outputs", '[');
    if (forward) {
        write_tensors(json, forward->outputs, forward->output_count, NULL);
    }
    pock_json_close(json, ']');
    pock_json_open(json, "tensors", '[');
    write_tensors(json, model->params, model->param_count, "param");
    write_tensors(json, model->states, model->state_count, "state");
    pock_json_close(json, ']');
    pock_json_close(json, '}');
}
