/* The command line. */
#ifndef POCK_OPTIONS_H
#define POCK_OPTIONS_H

#include <stdint.h>

#include "error.h"

enum pock_entry_point { POCK_TRAIN, POCK_EVAL, POCK_PREDICT, POCK_BENCH, POCK_GENERATE, POCK_INFO };

/* Texts are NULL and numbers 0 when not given. A training with `eval_share` has its own dataset as `eval_data`. */
typedef struct {
    enum pock_entry_point entry;
    const char *data, *save, *load, *resume, *checkpoint, *report, *params, *consts, *out, *save_trained, *eval_data, *prompt_tokens;
    uint64_t steps, epochs, threads, seed, checkpoint_every, eval_every, eval_seed, patience, tokens, top_k, stop;
    double eval_share, temperature;
    int stop_given, no_shuffle, seed_given, eval_seed_given, profile, help;
} pock_options;

int pock_options_parse(pock_options *options, int count, char **arguments, pock_error *error);

/* What `--help` prints. */
const char *pock_usage(void);

/* `train`, `eval`, ... */
const char *pock_entry_name(enum pock_entry_point entry);

#endif
