#include "platform.h"

#include "options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define FOR(entry) (1u << (entry))
#define RUNS (FOR(POCK_TRAIN) | FOR(POCK_EVAL) | FOR(POCK_PREDICT) | FOR(POCK_BENCH) | FOR(POCK_GENERATE))
#define READS_DATA (FOR(POCK_TRAIN) | FOR(POCK_EVAL) | FOR(POCK_PREDICT) | FOR(POCK_BENCH))

enum kind { TEXT, NUMBER, SHARE, DECIMAL, SWITCH };

/* One row an option: where its value goes, which entry points know it, and the least number it takes. */
static const struct option {
    const char *name;
    enum kind kind;
    size_t field;
    unsigned entries;
    uint64_t least;
} OPTIONS[] = {
    {"--data", TEXT, offsetof(pock_options, data), READS_DATA, 0},
    {"--steps", NUMBER, offsetof(pock_options, steps), FOR(POCK_TRAIN) | FOR(POCK_BENCH), 1},
    {"--epochs", NUMBER, offsetof(pock_options, epochs), FOR(POCK_TRAIN), 1},
    {"--eval-data", TEXT, offsetof(pock_options, eval_data), FOR(POCK_TRAIN), 0},
    {"--eval-share", SHARE, offsetof(pock_options, eval_share), FOR(POCK_TRAIN) | FOR(POCK_EVAL), 0},
    {"--eval-seed", NUMBER, offsetof(pock_options, eval_seed), FOR(POCK_TRAIN) | FOR(POCK_EVAL), 0},
    {"--eval-every", NUMBER, offsetof(pock_options, eval_every), FOR(POCK_TRAIN), 1},
    {"--patience", NUMBER, offsetof(pock_options, patience), FOR(POCK_TRAIN), 1},
    {"--threads", NUMBER, offsetof(pock_options, threads), RUNS, 1},
    {"--seed", NUMBER, offsetof(pock_options, seed), FOR(POCK_TRAIN) | FOR(POCK_GENERATE), 0},
    {"--no-shuffle", SWITCH, offsetof(pock_options, no_shuffle), FOR(POCK_TRAIN), 0},
    {"--save", TEXT, offsetof(pock_options, save), FOR(POCK_TRAIN), 0},
    {"--save-trained", TEXT, offsetof(pock_options, save_trained), FOR(POCK_TRAIN), 0},
    {"--load", TEXT, offsetof(pock_options, load), RUNS, 0},
    {"--resume", TEXT, offsetof(pock_options, resume), FOR(POCK_TRAIN), 0},
    {"--checkpoint", TEXT, offsetof(pock_options, checkpoint), FOR(POCK_TRAIN), 0},
    {"--checkpoint-every", NUMBER, offsetof(pock_options, checkpoint_every), FOR(POCK_TRAIN), 1},
    {"--report", TEXT, offsetof(pock_options, report), RUNS, 0},
    {"--params", TEXT, offsetof(pock_options, params), RUNS, 0},
    {"--consts", TEXT, offsetof(pock_options, consts), RUNS, 0},
    {"--out", TEXT, offsetof(pock_options, out), FOR(POCK_PREDICT), 0},
    {"--prompt-tokens", TEXT, offsetof(pock_options, prompt_tokens), FOR(POCK_GENERATE), 0},
    {"--tokens", NUMBER, offsetof(pock_options, tokens), FOR(POCK_GENERATE), 1},
    {"--temperature", DECIMAL, offsetof(pock_options, temperature), FOR(POCK_GENERATE), 0},
    {"--top-k", NUMBER, offsetof(pock_options, top_k), FOR(POCK_GENERATE), 1},
    {"--stop", NUMBER, offsetof(pock_options, stop), FOR(POCK_GENERATE), 0},
    {"--profile", SWITCH, offsetof(pock_options, profile), FOR(POCK_BENCH) | FOR(POCK_TRAIN), 0},
    {"--help", SWITCH, offsetof(pock_options, help), RUNS | FOR(POCK_INFO), 0},
};
#define OPTION_COUNT (sizeof OPTIONS / sizeof *OPTIONS)

static const char *const ENTRIES[] = {"train", "eval", "predict", "bench", "generate", "info"};
#define ENTRY_COUNT (sizeof ENTRIES / sizeof *ENTRIES)

const char *pock_entry_name(enum pock_entry_point entry) {
    return ENTRIES[entry];
}

const char *pock_usage(void) {
    return "usage: model train   --data D.safetensors --steps N and/or --epochs E [--seed S] [--no-shuffle]\n"
           "                     [--eval-data D.safetensors or --eval-share 0.2 [--eval-seed S]]\n"
           "                     [--eval-every N] [--patience P]\n"
           "                     [--save W] [--save-trained W] [--load W]\n"
           "                     [--checkpoint C --checkpoint-every N] [--resume C] [--report R.json] [--profile]\n"
           "       model eval    --data D.safetensors [--eval-share 0.2 [--eval-seed S]] [--load W] [--report R.json]\n"
           "       model predict --data D.safetensors --out O.safetensors [--load W]\n"
           "       model bench   --steps N [--data D.safetensors] [--profile] [--report R.json]\n"
           "       model generate --prompt-tokens 1,2,3 [--tokens N] [--stop ID] [--temperature X [--top-k K] [--seed S]]\n"
           "                     [--load W] [--report R.json]\n"
           "       model info\n"
           "every run: [--threads T] [--params P.safetensors] [--consts K.safetensors]\n";
}

static const char *option_at(const void *options, size_t index) {
    return ((const struct option *)options)[index].name;
}

static int parse_number(const struct option *option, const char *text, uint64_t *value, pock_error *error) {
    char *end = NULL;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || *value < option->least) {
        return pock_fail(error, POCK_USAGE, "%s takes a whole number of at least %llu, not '%s'", option->name,
                         (unsigned long long)option->least, text);
    }
    return POCK_OK;
}

static int parse_share(const struct option *option, const char *text, double *value, pock_error *error) {
    char *end = NULL;
    *value = strtod(text, &end);
    if ((text[0] != '0' && text[0] != '.') || *end || !(*value > 0 && *value < 1)) {
        return pock_fail(error, POCK_USAGE, "%s takes a number between 0 and 1, such as 0.2, not '%s'", option->name, text);
    }
    return POCK_OK;
}

static int parse_decimal(const struct option *option, const char *text, double *value, pock_error *error) {
    char *end = NULL;
    *value = strtod(text, &end);
    if ((text[0] != '.' && (text[0] < '0' || text[0] > '9')) || *end || !(*value <= 1e6)) {
        return pock_fail(error, POCK_USAGE, "%s takes a number from 0 to 1000000, such as 0.8, not '%s'", option->name, text);
    }
    return POCK_OK;
}

static const struct option *find_option(const char *name) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(OPTIONS[i].name, name) == 0) {
            return &OPTIONS[i];
        }
    }
    return NULL;
}

/* Takes the option at `*index` and its value. */
static int take_option(pock_options *options, int count, char **arguments, int *index, pock_error *error) {
    const char *name = arguments[*index];
    const struct option *option = find_option(name);
    if (!option) {
        return pock_fail(error, POCK_USAGE, "unknown option '%s'%s", name,
                         pock_nearest(name, option_at, OPTIONS, OPTION_COUNT).text);
    }
    if (!(option->entries & FOR(options->entry))) {
        return pock_fail(error, POCK_USAGE, "%s is not an option of '%s'", name, ENTRIES[options->entry]);
    }
    char *field = (char *)options + option->field;
    if (option->kind == SWITCH) {
        *(int *)(void *)field = 1;
        return POCK_OK;
    }
    if (++*index == count) {
        return pock_fail(error, POCK_USAGE, "%s needs a value", name);
    }
    if (option->kind == NUMBER) {
        options->seed_given |= strcmp(name, "--seed") == 0;
        options->stop_given |= strcmp(name, "--stop") == 0;
        options->eval_seed_given |= strcmp(name, "--eval-seed") == 0;
        return parse_number(option, arguments[*index], (uint64_t *)(void *)field, error);
    }
    if (option->kind == SHARE) {
        return parse_share(option, arguments[*index], (double *)(void *)field, error);
    }
    if (option->kind == DECIMAL) {
        return parse_decimal(option, arguments[*index], (double *)(void *)field, error);
    }
    *(const char **)(void *)field = arguments[*index];
    return POCK_OK;
}

/* Two outputs under one name would overwrite each other. */
static int check_outputs(const pock_options *options, pock_error *error) {
    static const struct {
        const char *option;
        size_t field;
    } outputs[] = {
        {"--save", offsetof(pock_options, save)},
        {"--save-trained", offsetof(pock_options, save_trained)},
        {"--checkpoint", offsetof(pock_options, checkpoint)},
        {"--report", offsetof(pock_options, report)},
        {"--out", offsetof(pock_options, out)},
    };
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        for (size_t j = 0; j < i; j++) {
            const char *path = *(const char *const *)(const void *)((const char *)options + outputs[i].field);
            const char *other = *(const char *const *)(const void *)((const char *)options + outputs[j].field);
            if (path && other && strcmp(path, other) == 0) {
                return pock_fail(error, POCK_USAGE, "%s and %s name the same file", outputs[j].option, outputs[i].option);
            }
        }
    }
    return POCK_OK;
}

/* What is evaluated during training: a dataset of its own, or a share of the one trained on. */
static int check_evaluation(const pock_options *options, pock_error *error) {
    if (options->eval_data && options->eval_share > 0) {
        return pock_fail(error, POCK_USAGE, "--eval-data and --eval-share exclude each other");
    }
    if (!options->eval_data && !(options->eval_share > 0) && (options->eval_every || options->patience)) {
        return pock_fail(error, POCK_USAGE, "%s needs --eval-data or --eval-share", options->patience ? "--patience" : "--eval-every");
    }
    if (options->eval_seed_given && !(options->eval_share > 0)) {
        return pock_fail(error, POCK_USAGE, "--eval-seed needs --eval-share");
    }
    return POCK_OK;
}

static int check_generation(const pock_options *options, pock_error *error) {
    if (!options->prompt_tokens) {
        return pock_fail(error, POCK_USAGE, "generate needs --prompt-tokens, such as 1,2,3");
    }
    if (!(options->temperature > 0) && (options->top_k || options->seed_given)) {
        return pock_fail(error, POCK_USAGE, "%s needs a --temperature above 0: without one, the likeliest token is taken",
                         options->top_k ? "--top-k" : "--seed");
    }
    return POCK_OK;
}

static int check_together(const pock_options *options, pock_error *error) {
    const char *entry = ENTRIES[options->entry];
    if (options->help || options->entry == POCK_INFO) {
        return POCK_OK;
    }
    if (options->entry == POCK_GENERATE) {
        return check_generation(options, error);
    }
    if (!options->data && options->entry != POCK_BENCH) {
        return pock_fail(error, POCK_USAGE, "%s needs --data", entry);
    }
    if (!options->steps && !options->epochs && (options->entry == POCK_TRAIN || options->entry == POCK_BENCH)) {
        return pock_fail(error, POCK_USAGE, "%s needs --steps%s", entry, options->entry == POCK_TRAIN ? " or --epochs" : "");
    }
    if (!options->out && options->entry == POCK_PREDICT) {
        return pock_fail(error, POCK_USAGE, "predict needs --out");
    }
    if (!options->checkpoint != !options->checkpoint_every) {
        return pock_fail(error, POCK_USAGE, "--checkpoint and --checkpoint-every go together");
    }
    int code = check_evaluation(options, error);
    return code ? code : check_outputs(options, error);
}

int pock_options_parse(pock_options *options, int count, char **arguments, pock_error *error) {
    memset(options, 0, sizeof *options);
    if (count < 2) {
        return pock_fail(error, POCK_USAGE, "say what to do: train, eval, predict, bench, generate or info (see --help)");
    }
    if (strcmp(arguments[1], "--help") == 0 || strcmp(arguments[1], "-h") == 0) {
        options->help = 1;
        return POCK_OK;
    }
    size_t entry = 0;
    while (entry < ENTRY_COUNT && strcmp(arguments[1], ENTRIES[entry]) != 0) {
        entry++;
    }
    if (entry == ENTRY_COUNT) {
        return pock_fail(error, POCK_USAGE, "unknown entry point '%s'%s", arguments[1],
                         pock_nearest(arguments[1], pock_string_at, ENTRIES, ENTRY_COUNT).text);
    }
    options->entry = (enum pock_entry_point)entry;
    for (int index = 2; index < count; index++) {
        int code = take_option(options, count, arguments, &index, error);
        if (code) {
            return code;
        }
    }
    int code = check_together(options, error);
    if (options->eval_share > 0 && options->entry == POCK_TRAIN) {
        options->eval_data = options->data;
    }
    return code;
}
