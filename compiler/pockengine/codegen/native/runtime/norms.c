#include "platform.h"

#include "norms.h"

#include <string.h>

static const pock_tensor *find_param(const pock_model *model, const char *name) {
    for (uint32_t i = 0; i < model->param_count; i++) {
        if (strcmp(model->params[i].name, name) == 0) {
            return &model->params[i];
        }
    }
    return NULL;
}

int pock_norms_take(pock_machine *machine, uint64_t done, pock_error *error) {
    const pock_program *program = machine->model->norms;
    int code = pock_machine_run(machine, program, NULL, NULL, error);
    code = code ? code : pock_machine_fetch(machine, error);
    for (uint32_t i = 0; i < program->output_count && !code; i++) {
        const pock_tensor *output = &program->outputs[i];
        const pock_tensor *param = find_param(machine->model, output->name);
        if (!param || param->nbytes != output->nbytes) {
            return pock_fail(error, POCK_FAILED, "'%s' is no running statistic of this model", output->name);
        }
        const float *batch = pock_machine_at(machine, output);
        float *running = pock_machine_at(machine, param);
        size_t count = (size_t)param->nbytes / sizeof *running;
        for (size_t channel = 0; channel < count; channel++) {
            float change = (batch[channel] - running[channel]) / (float)(done + 1);
            running[channel] = done ? running[channel] + change : batch[channel];
        }
    }
    pock_machine_changed(machine);
    return code;
}
