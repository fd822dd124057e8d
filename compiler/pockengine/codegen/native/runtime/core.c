/* The part a microcontroller can carry: walks a program's table of calls. No libc, no allocation, no threads. */
#include "pock.h"

static void *resolve(pock_ref ref, char *const space[POCK_SPACES]) {
    return space[ref.space] + (size_t)ref.offset;
}

void pock_run(const pock_program *program, char *const space[POCK_SPACES], pock_parallel parallel, void *context,
              pock_observer observer, void *observer_context) {
    void *arg[POCK_MAX_OPERANDS];
    for (uint32_t index = 0; index < program->call_count; index++) {
        const pock_call *call = &program->calls[index];
        for (uint32_t operand = 0; operand < call->refs; operand++) {
            arg[operand] = resolve(program->refs[call->first_ref + operand], space);
        }
        if (call->parallel && parallel) {
            parallel(context, call->kernel, arg);
        } else {
            call->kernel(arg, 0, 1);
        }
        if (observer) {
            observer(observer_context, index);
        }
    }
}

static void copy(char *to, const char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        to[i] = from[i];
    }
}

/* Of a parameter in bf16 the average is f32: the same bits, and zeros below. */
static void start_average(const pock_tensor *state, char *const space[POCK_SPACES]) {
    const pock_tensor *param = state->average_of;
    char *to = resolve(state->ref, space);
    const char *from = resolve(param->ref, space);
    if (param->dtype == state->dtype) {
        copy(to, from, (size_t)state->nbytes);
        return;
    }
    const uint16_t *numbers = (const uint16_t *)(const void *)from;
    uint32_t *wide = (uint32_t *)(void *)to;
    for (size_t i = 0; i < (size_t)state->nbytes / sizeof *wide; i++) {
        wide[i] = (uint32_t)numbers[i] << 16;
    }
}

void pock_restart_average(const pock_model *model, char *const space[POCK_SPACES], const pock_tensor *param) {
    for (uint32_t index = 0; index < model->state_count; index++) {
        const pock_tensor *state = &model->states[index];
        if (state->average_of == param) {
            start_average(state, space);
        }
    }
}

/* Fill values are written as f32 bit patterns; states of another type start at zero, which is all bytes zero in each. */
void pock_init_states(const pock_model *model, char *const space[POCK_SPACES]) {
    for (uint32_t index = 0; index < model->state_count; index++) {
        const pock_tensor *state = &model->states[index];
        char *bytes = resolve(state->ref, space);
        if (state->average_of) {
            start_average(state, space);
        } else if (state->dtype == POCK_F32) {
            float *values = (float *)(void *)bytes;
            for (size_t i = 0; i < (size_t)state->nbytes / sizeof(float); i++) {
                values[i] = state->fill;
            }
        } else {
            for (size_t i = 0; i < (size_t)state->nbytes; i++) {
                bytes[i] = 0;
            }
        }
    }
}
