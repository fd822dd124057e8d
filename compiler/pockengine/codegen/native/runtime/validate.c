/* Evaluation during training: when, which weights are the best, and when to stop. */
#include "platform.h"

#include <math.h>

#include "training.h"

uint64_t pock_training_epoch(const pock_training *training) {
    return pock_stream_epoch(&training->stream, training->position.step - 1) + 1;
}

int pock_validation_due(const pock_training *training) {
    const pock_options *options = training->job->options;
    uint64_t step = training->position.step;
    if (!options->eval_data) {
        return 0;
    }
    return options->eval_every ? step % options->eval_every == 0 : pock_stream_ends_epoch(&training->stream, step - 1);
}

/* A loss that is not finite is never the best. */
static int judge(pock_training *training, double loss) {
    pock_position *position = &training->position;
    int best = isfinite(loss) && (!position->best_step || loss < position->best_loss);
    position->evaluated = position->step;
    position->waited = best ? 0 : position->waited + 1;
    if (best) {
        position->best_step = position->step;
        position->best_loss = loss;
    }
    return best;
}

int pock_validate(pock_training *training) {
    pock_job *job = training->job;
    pock_evaluation evaluation = {.step = training->position.step, .epoch = pock_training_epoch(training)};
    int code = pock_evaluate_dataset(job, &job->eval_data, &evaluation);
    if (code) {
        return code;
    }
    evaluation.best = judge(training, evaluation.loss);
    if (evaluation.best && training->best) {
        code = pock_machine_save(&job->machine, training->best, 1, &job->error);
    }
    code = code ? code : pock_measured_evaluation(&job->measured, &evaluation, &job->error);
    return code ? code : pock_emit_evaluation(job, &evaluation);
}

int pock_validation_stops(const pock_training *training) {
    uint64_t patience = training->job->options->patience;
    return patience && training->position.waited >= patience;
}
