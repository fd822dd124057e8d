/* generate: tokens that follow a prompt, one run of the program `generate` for each token that is read. */
#include "platform.h"

#include "job.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A generation under way. Start with all zero. */
typedef struct {
    const pock_program *program;
    const pock_tensor *token, *position, *scores;
    int64_t *prompt;
    uint64_t length, wanted;
    float *sorted; /* room for the scores; NULL when the likeliest token is taken */
} generation;

/* The numbers of "1,2,3", which may have blanks between them. */
static int read_prompt(generation *run, const char *text, pock_error *error) {
    uint64_t room = strlen(text) / 2 + 1;
    run->prompt = malloc(room * sizeof *run->prompt);
    if (!run->prompt) {
        return pock_fail(error, POCK_MEMORY, "out of memory reading the prompt");
    }
    for (const char *at = text;; at++) {
        char *end = NULL;
        at += strspn(at, " ");
        errno = 0;
        long long token = strtoll(at, &end, 10);
        if (*at < '0' || *at > '9' || errno) {
            return pock_fail(error, POCK_USAGE, "--prompt-tokens takes whole numbers such as 1,2,3, not '%.40s'", at);
        }
        if (token >= run->token->limit) {
            return pock_fail(error, POCK_USAGE, "the prompt's token %lld is not in the vocabulary of 0 to %lld", token,
                             (long long)run->token->limit - 1);
        }
        run->prompt[run->length++] = token;
        at = end + strspn(end, " ");
        if (!*at) {
            return POCK_OK;
        }
        if (*at != ',') {
            return pock_fail(error, POCK_USAGE, "--prompt-tokens takes whole numbers such as 1,2,3, not '%.40s'", at);
        }
    }
}

/* The last token is made, but not read: it needs no room. */
static int find_length(generation *run, uint64_t asked, pock_error *error) {
    static const uint64_t usual = 64;
    uint64_t context = (uint64_t)run->position->limit;
    if (run->length > context) {
        return pock_fail(error, POCK_USAGE, "the prompt has %llu tokens, and the model was compiled for sequences of %llu",
                         (unsigned long long)run->length, (unsigned long long)context);
    }
    uint64_t most = context - run->length + 1;
    if (asked > most) {
        return pock_fail(error, POCK_USAGE,
                         "after a prompt of %llu tokens there is room for %llu, not --tokens %llu: the model was compiled "
                         "for sequences of %llu",
                         (unsigned long long)run->length, (unsigned long long)most, (unsigned long long)asked,
                         (unsigned long long)context);
    }
    run->wanted = asked ? asked : most < usual ? most : usual;
    return POCK_OK;
}

static int open_generation(generation *run, pock_job *job) {
    const pock_model *model = job->machine.model;
    if (!model->generate) {
        return pock_fail(&job->error, POCK_USAGE,
                         "this model was compiled without generation: say 'generate: true' in the recipe of a causal "
                         "language model");
    }
    run->program = model->generate;
    run->token = &model->generate_inputs[0];
    run->position = &model->generate_inputs[1];
    run->scores = &run->program->outputs[0];
    int code = read_prompt(run, job->options->prompt_tokens, &job->error);
    code = code ? code : find_length(run, job->options->tokens, &job->error);
    if (!code && job->options->temperature > 0) {
        run->sorted = malloc((size_t)run->scores->nbytes);
        code = run->sorted ? POCK_OK : pock_fail(&job->error, POCK_MEMORY, "out of memory choosing tokens");
    }
    return code;
}

/* Uniform in [0, 1): the output number `index` of SplitMix64 (Steele, Lea and Flood 2014). */
static double uniform(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static int descending(const void *a, const void *b) {
    float x = *(const float *)a;
    float y = *(const float *)b;
    return (x < y) - (x > y);
}

static size_t likeliest(const float *scores, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;
}

/* A token drawn by exp(score / temperature), of the `top_k` with the highest scores where it is not 0. Of equal scores at
 * the border, the first tokens stay. */
static size_t drawn(const generation *run, const float *scores, size_t count, const pock_options *options, uint64_t index) {
    size_t best = likeliest(scores, count);
    size_t kept = options->top_k && options->top_k < count ? (size_t)options->top_k : count;
    float border = -INFINITY;
    size_t ties = count;
    if (kept < count) {
        memcpy(run->sorted, scores, count * sizeof *scores);
        qsort(run->sorted, count, sizeof *scores, descending);
        border = run->sorted[kept - 1];
        for (ties = 1; ties < kept && !(run->sorted[kept - 1 - ties] > border); ties++) {
        }
    }
    double total = 0;
    size_t left = ties;
    for (size_t i = 0; i < count; i++) {
        int stays = scores[i] > border || (!(scores[i] < border) && left && left--);
        run->sorted[i] = stays ? (float)exp(((double)scores[i] - (double)scores[best]) / options->temperature) : 0;
        total += (double)run->sorted[i];
    }
    double reach = uniform(options->seed, index) * total;
    for (size_t i = 0; i < count; i++) {
        reach -= (double)run->sorted[i];
        if (reach < 0) {
            return i;
        }
    }
    return best; /* rounding took the last of it */
}

static int choose(const generation *run, pock_job *job, uint64_t index, int64_t *token) {
    const float *scores = pock_machine_at(&job->machine, run->scores);
    size_t count = (size_t)run->scores->nbytes / sizeof *scores;
    count = count < (size_t)run->token->limit ? count : (size_t)run->token->limit; /* the others could not be read */
    for (size_t i = 0; i < count; i++) {
        if (!(scores[i] < INFINITY)) {
            return pock_fail(&job->error, POCK_DIVERGED, "the scores of the next token are not numbers: the weights have diverged");
        }
    }
    *token = (int64_t)(run->sorted ? drawn(run, scores, count, job->options, index) : likeliest(scores, count));
    return POCK_OK;
}

/* Reads a token; the scores are then of the one that follows. */
static int read_token(const generation *run, pock_job *job, int64_t token, uint64_t position) {
    int64_t place = (int64_t)position;
    double ms = 0;
    pock_convert(pock_machine_at(&job->machine, run->token), run->token->dtype, &token, POCK_I64, 1);
    pock_convert(pock_machine_at(&job->machine, run->position), run->position->dtype, &place, POCK_I64, 1);
    int code = pock_timed_run(job, run->program, NULL, &ms);
    pock_measured_started(&job->measured);
    return code ? code : pock_measured_add(&job->measured, 0, ms, &job->error);
}

static int emit_token(pock_job *job, uint64_t position, int64_t token) {
    pock_json json = {0};
    pock_json_open(&json, NULL, '{');
    pock_json_string(&json, "event", "token");
    pock_json_integer(&json, "position", position);
    pock_json_integer(&json, "token", (uint64_t)token);
    pock_json_close(&json, '}');
    return pock_emit(job, &json);
}

static int generate(const generation *run, pock_job *job) {
    int64_t token = 0;
    int code = pock_emit_start(job, run->program, run->wanted, 0);
    for (uint64_t i = 0; i < run->length && !code; i++) {
        code = read_token(run, job, run->prompt[i], i);
    }
    for (uint64_t made = 0; made < run->wanted && !code; made++) {
        code = made ? read_token(run, job, token, run->length + made - 1) : POCK_OK;
        code = code ? code : choose(run, job, made, &token);
        code = code ? code : emit_token(job, run->length + made, token);
        if (job->options->stop_given && (uint64_t)token == job->options->stop) {
            break;
        }
    }
    return code;
}

int pock_generate(pock_job *job) {
    generation run = {0};
    int code = open_generation(&run, job);
    code = code ? code : generate(&run, job);
    job->measured.losses = 0;
    free(run.prompt);
    free(run.sorted);
    return code;
}
