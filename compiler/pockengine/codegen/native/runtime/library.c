/* The shared library's functions, as model.h declares them. */
#include "platform.h"

#include "model.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "norms.h"
#include "report.h"
#include "tables.h"

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

/* What micro-batch `index` of an input holds; NULL for weights that are not given. */
static const char *batch_at(const pock_tensor *input, const void *const *batch, uint32_t i, uint32_t index) {
    return batch[i] ? (const char *)batch[i] + index * input->nbytes : NULL;
}

/* Whether the processor reads an input's values, wherever they are given: kernels index memory with integers below a limit. */
static int is_read_here(const pock_tensor *input) {
    return input->limit || input->target == POCK_SAMPLE_WEIGHT;
}

/* Where the processor finds values of an input, NULL where it does not read them; those of a device are in the input block, to
 * which they are brought unless nothing was since. */
static int find_here(pock_session *session, const pock_tensor *input, const char *data, int bring, const void **found) {
    int there = 0;
    const char *own = pock_machine_at(&session->machine, input), *block = own - input->ref.offset;
    if (data != own && data >= block && data < block + session->machine.model->space_bytes[POCK_INPUT]) {
        return pock_fail(&session->error, POCK_USAGE, "'%s' in the batch lies in the place of another input, or beyond its own: "
                                                      "copy it first", input->name);
    }
    int code = pock_device_has(session->machine.device, input, data, &there, &session->error);
    *found = there ? (is_read_here(input) ? pock_machine_at(&session->machine, input) : NULL) : data;
    if (!code && there && *found && bring) {
        code = pock_device_bring(session->machine.device, input, data, &session->error);
    }
    return code;
}

/* Checks the values of all micro-batches before the first runs. */
static int check_batches(pock_session *session, const void *const *batch, uint32_t batches, int labelled) {
    const pock_model *model = session->machine.model;
    int code = POCK_OK;
    for (uint32_t at = 0; at < batches * model->input_count && !code; at++) {
        uint32_t i = at % model->input_count;
        uint32_t index = at / model->input_count;
        const pock_tensor *input = &model->inputs[i];
        const char *data = batch_at(input, batch, i, index);
        size_t count = (size_t)input->nbytes / pock_dtype_bytes(input->dtype);
        const void *found = NULL;
        if ((labelled || !input->target) && (data || input->target != POCK_SAMPLE_WEIGHT)) {
            code = find_here(session, input, data, 1, &found);
        }
        if (!code && found) {
            code = pock_check_values(input, found, count, count / model->batch, "the batch", (uint64_t)index * model->batch,
                                     &session->error);
        }
    }
    return code;
}

static void fill_with_ones(float *weights, uint32_t batch) {
    for (uint32_t row = 0; row < batch; row++) {
        weights[row] = 1;
    }
}

/* Takes a micro-batch that has been checked: copies it to the input block, or has the device take it from where it is. */
static int take_batch(pock_session *session, const void *const *batch, uint32_t index, int labelled) {
    const pock_model *model = session->machine.model;
    int code = POCK_OK;
    for (uint32_t i = 0; i < model->input_count && !code; i++) {
        const pock_tensor *input = &model->inputs[i];
        void *block = pock_machine_at(&session->machine, input);
        const char *data = batch_at(input, batch, i, index);
        const void *found = NULL;
        if (input->target && !labelled) {
            continue;
        }
        if (!data) {
            fill_with_ones(block, model->batch);
            continue;
        }
        code = find_here(session, input, data, pock_micro_batches(model) > 1, &found);
        if (!code && !found) {
            pock_device_give(session->machine.device, input, data);
        } else if (!code && found != block) {
            memcpy(block, found, (size_t)input->nbytes);
        }
    }
    if (code) {
        pock_device_forget_given(session->machine.device);
    }
    return code;
}

/* The same of a batch that is the only one of its run, and has not been checked. */
static int take_checked(pock_session *session, const void *const *batch, int labelled) {
    int code = check_batches(session, batch, 1, labelled);
    return code ? code : take_batch(session, batch, 0, labelled);
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
    const pock_model *model = session->machine.model;
    uint32_t count = pock_micro_batches(model);
    double sum = 0;
    if (!model->train) {
        return lacks(session, "a training step");
    }
    int code = check_batches(session, batch, count, 1);
    for (uint32_t index = 0; index < count && !code; index++) {
        const pock_program *program = index + 1 < count ? model->accumulate : model->train;
        code = take_batch(session, batch, index, 1);
        code = code ? code : pock_machine_run(&session->machine, program, NULL, NULL, &session->error);
        float part = NAN;
        copy_output(session, pock_program_output(program, "loss"), &part);
        sum += (double)part;
    }
    if (!code) {
        *loss = (float)(sum / count);
    }
    return code;
}

int pock_predict(pock_session *session, const void *const *batch, void *const *outputs) {
    const pock_program *program = session->machine.model->predict;
    if (!program) {
        return lacks(session, "predictions");
    }
    int code = take_checked(session, batch, 0), wanted = 0;
    for (uint32_t i = 0; i < program->output_count; i++) {
        wanted |= outputs[i] != NULL;
    }
    if (!code && !wanted) {
        pock_device_keep(session->machine.device);
    }
    code = code ? code : pock_machine_run(&session->machine, program, NULL, NULL, &session->error);
    for (uint32_t i = 0; i < program->output_count && !code; i++) {
        copy_output(session, &program->outputs[i], outputs[i]);
    }
    return code;
}

/* One number a sample: the output's, or `otherwise` where the program has no such output. */
static void copy_rows(const pock_session *session, const char *name, float otherwise, float *to) {
    const pock_tensor *output = pock_program_output(session->machine.model->eval, name);
    copy_output(session, output, to);
    for (uint32_t row = 0; !output && row < session->machine.model->batch; row++) {
        to[row] = otherwise;
    }
}

int pock_eval(pock_session *session, const void *const *batch, float *sample_loss, float *loss_weight, float *correct,
              float *counted) {
    const pock_program *program = session->machine.model->eval;
    if (!program) {
        return lacks(session, "an evaluation");
    }
    int code = take_checked(session, batch, 1);
    code = code ? code : pock_machine_run(&session->machine, program, NULL, NULL, &session->error);
    if (code) {
        return code;
    }
    int judges = pock_program_output(program, "correct") != NULL;
    copy_rows(session, "sample_loss", NAN, sample_loss);
    copy_rows(session, "loss_weight", 1, loss_weight);
    copy_rows(session, "correct", -1, correct);
    copy_rows(session, "counted", (float)judges, counted);
    return POCK_OK;
}

int pock_estimate_norms(pock_session *session, const void *const *batch, uint64_t done) {
    if (!session->machine.model->norms) {
        return lacks(session, "norm_batches");
    }
    int code = take_checked(session, batch, 0);
    return code ? code : pock_norms_take(&session->machine, done, &session->error);
}

/* The parameter or state called `name`. */
static int find_named(pock_session *session, const char *name, const pock_tensor **found) {
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
    return POCK_OK;
}

/* The same of exactly `bytes`. */
static int find_tensor(pock_session *session, const char *name, size_t bytes, const pock_tensor **found) {
    int code = find_named(session, name, found);
    if (!code && (*found)->nbytes != bytes) {
        code = pock_fail(&session->error, POCK_USAGE, "'%s' has %llu bytes, not %zu", name,
                         (unsigned long long)(*found)->nbytes, bytes);
    }
    return code;
}

int pock_get_tensor(pock_session *session, const char *name, void *data, size_t bytes) {
    const pock_tensor *tensor = NULL;
    int code = find_tensor(session, name, bytes, &tensor);
    code = code ? code : pock_machine_fetch(&session->machine, &session->error);
    if (!code) {
        pock_machine_unpack(&session->machine, tensor);
        code = data ? pock_machine_read(&session->machine, tensor, data, bytes, 0, &session->error) : POCK_OK;
        pock_machine_pack(&session->machine, tensor);
    }
    return code;
}

int pock_set_tensor(pock_session *session, const char *name, const void *data, size_t bytes) {
    const pock_tensor *tensor = NULL;
    const pock_model *model = session->machine.model;
    int code = find_tensor(session, name, bytes, &tensor);
    code = code ? code : pock_machine_fetch(&session->machine, &session->error);
    int is_param = !code && tensor >= model->params && tensor < model->params + model->param_count;
    if (is_param) {
        pock_machine_unpack(&session->machine, tensor);
        code = pock_machine_may_replace(&session->machine, tensor, data, &session->error);
    }
    if (!code && !pock_stays_in_file(tensor)) {
        memcpy(pock_machine_at(&session->machine, tensor), data, bytes);
    }
    if (is_param && !code) {
        pock_restart_average(model, session->machine.space, tensor);
    }
    if (is_param) {
        pock_machine_pack(&session->machine, tensor);
    }
    pock_machine_changed(&session->machine);
    return code;
}

static int place_of(pock_session *session, const pock_tensor *tensor, pock_place *place) {
    return pock_device_place(session->machine.device, pock_machine_at(&session->machine, tensor), place, &session->error);
}

int pock_input_place(pock_session *session, uint32_t input, pock_place *place) {
    const pock_model *model = session->machine.model;
    if (input >= model->input_count) {
        return pock_fail(&session->error, POCK_USAGE, "the model has %u inputs, none of number %u", model->input_count, input);
    }
    return place_of(session, &model->inputs[input], place);
}

int pock_output_place(pock_session *session, uint32_t output, pock_place *place) {
    const pock_program *program = session->machine.model->predict;
    if (!program) {
        return lacks(session, "predictions");
    }
    if (output >= program->output_count) {
        return pock_fail(&session->error, POCK_USAGE, "the model has %u outputs, none of number %u", program->output_count,
                         output);
    }
    return place_of(session, &program->outputs[output], place);
}

int pock_tensor_place(pock_session *session, const char *name, pock_place *place) {
    const pock_tensor *tensor = NULL;
    int code = find_named(session, name, &tensor);
    if (!code && (tensor->packing || pock_stays_in_file(tensor))) {
        return pock_fail(&session->error, POCK_USAGE, "'%s' does not lie in memory as it is in files: copy it (pock_get_tensor)",
                         name);
    }
    return code ? code : place_of(session, tensor, place);
}

int pock_save(pock_session *session, const char *path) {
    return pock_machine_save(&session->machine, path, 0, &session->error);
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
