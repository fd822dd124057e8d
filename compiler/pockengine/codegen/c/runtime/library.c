/* The shared library's functions, as model.h declares them. */
#include "platform.h"

#include "model.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "report.h"

struct pock_session {
    pock_machine machine;
    pock_error error;
};

static pock_json information;
static pthread_once_t information_once = PTHREAD_ONCE_INIT;

static void write_information(void) {
    pock_info_write(&information, &pock_model_data);
}

const char *pock_info(void) {
    pthread_once(&information_once, write_information);
    return information.failed ? NULL : information.text;
}

int pock_open(pock_session **session, const char *params_path, const char *consts_path, int threads) {
    *session = calloc(1, sizeof **session);
    if (!*session) {
        return POCK_MEMORY;
    }
    pock_error *error = &(*session)->error;
    if (threads < 0) {
        return pock_fail(error, POCK_USAGE, "threads must be 0 or more, not %d", threads);
    }
    if (!params_path || (pock_model_data.const_count && !consts_path)) {
        return pock_fail(error, POCK_USAGE, "the path of the %s is missing", params_path ? "constants" : "parameters");
    }
    return pock_machine_open(&(*session)->machine, &pock_model_data, params_path, consts_path, (uint32_t)threads, error);
}

/* Copies a batch to the input block and checks its values: kernels index memory with them. */
static int take_batch(pock_session *session, const void *const *batch, int labelled) {
    const pock_model *model = session->machine.model;
    int code = POCK_OK;
    for (uint32_t i = 0; i < model->input_count && !code; i++) {
        const pock_tensor *input = &model->inputs[i];
        if (!labelled && input == pock_labels(model)) {
            continue;
        }
        size_t count = (size_t)input->nbytes / pock_dtype_bytes(input->dtype);
        code = pock_check_values(input, batch[i], count, count / model->batch, "the batch", 0, &session->error);
        if (!code) {
            memcpy(pock_machine_at(&session->machine, input), batch[i], (size_t)input->nbytes);
        }
    }
    return code;
}

static int lacks(pock_session *session, const char *what) {
    return pock_fail(&session->error, POCK_USAGE, "this model was compiled without %s", what);
}

static void copy_output(const pock_session *session, const pock_tensor *output, void *to) {
    if (output && to) {
        memcpy(to, pock_machine_at(&session->machine, output), (size_t)output->nbytes);
    }
}

int pock_step(pock_session *session, const void *const *batch, float *loss) {
    const pock_program *program = session->machine.model->train;
    if (!program) {
        return lacks(session, "a training step");
    }
    int code = take_batch(session, batch, 1);
    if (code) {
        return code;
    }
    pock_machine_run(&session->machine, program, NULL, NULL);
    *loss = NAN;
    copy_output(session, pock_program_output(program, "loss"), loss);
    return POCK_OK;
}

int pock_predict(pock_session *session, const void *const *batch, void *const *outputs) {
    const pock_program *program = session->machine.model->predict;
    if (!program) {
        return lacks(session, "predictions");
    }
    int code = take_batch(session, batch, 0);
    if (code) {
        return code;
    }
    pock_machine_run(&session->machine, program, NULL, NULL);
    for (uint32_t i = 0; i < program->output_count; i++) {
        copy_output(session, &program->outputs[i], outputs[i]);
    }
    return POCK_OK;
}

int pock_eval(pock_session *session, const void *const *batch, float *sample_loss, float *correct) {
    const pock_program *program = session->machine.model->eval;
    const pock_tensor *right = program ? pock_program_output(program, "correct") : NULL;
    if (!program) {
        return lacks(session, "an evaluation");
    }
    int code = take_batch(session, batch, 1);
    if (code) {
        return code;
    }
    pock_machine_run(&session->machine, program, NULL, NULL);
    copy_output(session, pock_program_output(program, "sample_loss"), sample_loss);
    copy_output(session, right, correct);
    for (uint32_t row = 0; !right && row < session->machine.model->batch; row++) {
        correct[row] = -1;
    }
    return POCK_OK;
}

/* The parameter or state called `name`, of exactly `bytes`. */
static int find_tensor(pock_session *session, const char *name, size_t bytes, const pock_tensor **found) {
    const pock_model *model = session->machine.model;
    *found = NULL;
    for (uint32_t i = 0; i < model->param_count + model->state_count && !*found; i++) {
        const pock_tensor *tensor = i < model->param_count ? &model->params[i] : &model->states[i - model->param_count];
        *found = strcmp(tensor->name, name) == 0 ? tensor : NULL;
    }
    if (!*found) {
        return pock_fail(&session->error, POCK_USAGE, "the model has no tensor '%s'%s", name,
                         pock_nearest(name, pock_tensor_at, model->params, model->param_count).text);
    }
    if ((*found)->nbytes != bytes) {
        return pock_fail(&session->error, POCK_USAGE, "'%s' has %llu bytes, not %zu", name,
                         (unsigned long long)(*found)->nbytes, bytes);
    }
    return POCK_OK;
}

int pock_get_tensor(pock_session *session, const char *name, void *data, size_t bytes) {
    const pock_tensor *tensor = NULL;
    int code = find_tensor(session, name, bytes, &tensor);
    copy_output(session, tensor && !code ? tensor : NULL, data);
    return code;
}

int pock_set_tensor(pock_session *session, const char *name, const void *data, size_t bytes) {
    const pock_tensor *tensor = NULL;
    const pock_model *model = session->machine.model;
    int code = find_tensor(session, name, bytes, &tensor);
    int is_param = !code && tensor >= model->params && tensor < model->params + model->param_count;
    if (is_param) {
        code = pock_machine_may_replace(&session->machine, tensor, data, &session->error);
    }
    if (!code) {
        memcpy(pock_machine_at(&session->machine, tensor), data, bytes);
    }
    if (is_param && !code) {
        pock_restart_average(model, session->machine.space, tensor);
    }
    return code;
}

int pock_save(pock_session *session, const char *path) {
    return pock_machine_save(&session->machine, path, &session->error);
}

int pock_load(pock_session *session, const char *path) {
    return pock_machine_load(&session->machine, path, &session->error);
}

int pock_threads(const pock_session *session) {
    return (int)session->machine.threads;
}

const char *pock_message(const pock_session *session) {
    return session->error.text;
}

void pock_close(pock_session *session) {
    if (session) {
        pock_machine_close(&session->machine);
        free(session);
    }
}
