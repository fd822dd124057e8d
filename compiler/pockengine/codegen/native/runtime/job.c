#include "platform.h"

#include "job.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

int pock_emit(pock_job *job, pock_json *json) {
    int code = POCK_OK;
    if (!json->failed) {
        json->text[json->length++] = '\n'; /* the writer keeps room for one byte more */
    }
    if (json->failed) {
        code = pock_fail(&job->error, POCK_MEMORY, "out of memory writing a line of output");
    } else if (pock_write_all(STDOUT_FILENO, json->text, json->length) != 0) {
        code = pock_fail(&job->error, POCK_IO, "cannot write to standard output: %s", strerror(errno));
    }
    pock_json_free(json);
    return code;
}

int pock_emit_start(pock_job *job, const pock_program *program, uint64_t steps, uint64_t first_step) {
    const pock_model *model = job->machine.model;
    pock_json json = {0};
    pock_json_open(&json, NULL, '{');
    pock_json_string(&json, "event", "start");
    pock_json_string(&json, "entry", pock_entry_name(job->options->entry));
    pock_json_string(&json, "target", model->target);
    pock_json_integer(&json, "threads", job->machine.threads);
    pock_json_integer(&json, "arena_bytes", program->arena_bytes);
    pock_json_integer(&json, "param_bytes", model->space_bytes[POCK_PARAM]);
    pock_json_integer(&json, "state_bytes", model->space_bytes[POCK_STATE]);
    pock_json_integer(&json, "steps", steps);
    if (job->options->epochs) {
        pock_json_integer(&json, "epochs", job->options->epochs);
    }
    pock_json_integer(&json, "first_step", first_step);
    pock_split_write(&json, &job->split);
    pock_json_close(&json, '}');
    return pock_emit(job, &json);
}

int pock_emit_saved(pock_job *job, const char *path) {
    pock_json json = {0};
    pock_json_open(&json, NULL, '{');
    pock_json_string(&json, "event", "saved");
    pock_json_string(&json, "path", path);
    pock_json_close(&json, '}');
    return pock_emit(job, &json);
}

/* A step's micro-batch; behind its last one come those of the next step. */
static pock_batch batch_of(pock_job *job, const pock_stream *stream, uint64_t step, uint32_t index) {
    step += index / stream->micro_batches;
    return (pock_batch){&job->dataset, stream->order, pock_stream_rows(stream, step, index % stream->micro_batches)};
}

int pock_run_step(pock_job *job, const pock_stream *stream, uint64_t step, double *loss, double *ms) {
    const pock_model *model = job->machine.model;
    double sum = 0;
    *ms = 0;
    for (uint32_t index = 0; index < stream->micro_batches; index++) {
        const pock_program *program = index + 1 < stream->micro_batches ? model->accumulate : model->train;
        double run_ms = 0;
        const int reads = job->options->data != NULL;
        pock_batch batch = batch_of(job, stream, step, index), next = batch_of(job, stream, step, index + 1);
        int code = reads ? pock_feed(&job->machine, &job->ahead, &batch, &job->error) : POCK_OK;
        code = code ? code : pock_timed_run(job, program, reads ? &next : NULL, &run_ms);
        if (code) {
            return code;
        }
        *ms += run_ms;
        sum += pock_scalar(&job->machine, program, "loss");
    }
    *loss = (double)(float)(sum / stream->micro_batches);
    return POCK_OK;
}

int pock_timed_run(pock_job *job, const pock_program *program, const pock_batch *next, double *ms) {
    int profiled = job->measured.profiled == program;
    double start = pock_now();
    job->measured.mark = start;
    int code = pock_machine_begin(&job->machine, program, profiled ? pock_measured_observe : NULL, &job->measured,
                                  &job->error);
    if (!code && next) {
        pock_feed_ahead(&job->machine, &job->ahead, next);
    }
    code = code ? code : pock_machine_end(&job->machine, &job->error);
    *ms = pock_now() - start;
    if (profiled && !code) {
        pock_measured_from_device(&job->measured, &job->machine);
    }
    return code;
}

double pock_scalar(const pock_machine *machine, const pock_program *program, const char *name) {
    const pock_tensor *output = pock_program_output(program, name);
    return output ? (double)*(const float *)pock_machine_at(machine, output) : NAN;
}
