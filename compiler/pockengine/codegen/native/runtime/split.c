#include "platform.h"

#include "split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"

#define WORD 64u
#define BLOCK 8u /* words */

/* Of each class: samples, then samples not yet visited; and how many of these are to be held out. */
typedef struct {
    uint64_t *left, *needed;
} quotas;

static int class_of(const pock_classes *classes, uint64_t sample, uint64_t *found, pock_error *error) {
    *found = 0;
    return classes->limit > 1 ? classes->class_at(classes->context, sample, found, error) : POCK_OK;
}

static int count_classes(uint64_t samples, const pock_classes *classes, uint64_t *counts, pock_error *error) {
    uint64_t found = 0;
    int code = POCK_OK;
    for (uint64_t sample = 0; sample < samples && !code; sample++) {
        code = class_of(classes, sample, &found, error);
        counts[found] += code ? 0 : 1;
    }
    return code;
}

/* Sums are rounded, not each class: so the whole is right however small the classes are. */
static void set_quotas(pock_split *split, const quotas *of, uint64_t limit) {
    uint64_t seen = 0;
    uint64_t held = 0;
    for (uint64_t one = 0; one < limit; one++) {
        uint64_t size = of->left[one];
        seen += size;
        uint64_t wanted = (uint64_t)floor(split->share * (double)seen + 0.5);
        uint64_t quota = wanted - held;
        held = wanted;
        of->needed[one] = size && quota >= size ? size - 1 : quota;
        split->held += of->needed[one];
        split->classes += limit > 1 && size ? 1 : 0;
    }
}

/* Selection sampling (Knuth, The Art of Computer Programming 3.4.2, algorithm S), for all classes in one pass. */
static int draw(pock_split *split, const pock_classes *classes, const quotas *of, pock_error *error) {
    uint64_t found = 0;
    uint64_t held = 0;
    int code = POCK_OK;
    for (uint64_t sample = 0; sample < split->samples && !code; sample++) {
        if (sample % (WORD * BLOCK) == 0) {
            split->before[sample / (WORD * BLOCK)] = held;
        }
        code = class_of(classes, sample, &found, error);
        if (!code && pock_mix(split->seed ^ pock_mix(sample)) % of->left[found] < of->needed[found]) {
            split->bits[sample / WORD] |= (uint64_t)1 << sample % WORD;
            of->needed[found]--;
            held++;
        }
        of->left[found] -= code ? 0 : 1;
    }
    return code;
}

static int divide(pock_split *split, const pock_classes *classes, const quotas *of, pock_error *error) {
    int code = count_classes(split->samples, classes, of->left, error);
    if (code) {
        return code;
    }
    set_quotas(split, of, classes->limit);
    if (!split->held) {
        return pock_fail(error, POCK_BAD_DATA, "--eval-share %g of %llu samples holds out none: give more samples or a larger share",
                         split->share, (unsigned long long)split->samples);
    }
    return draw(split, classes, of, error);
}

int pock_split_make(pock_split *split, uint64_t samples, double share, uint64_t seed, const pock_classes *classes,
                    pock_error *error) {
    size_t words = (size_t)(samples / WORD + 1);
    quotas of = {calloc((size_t)classes->limit, sizeof *of.left), calloc((size_t)classes->limit, sizeof *of.needed)};
    *split = (pock_split){.share = share, .seed = seed, .samples = samples};
    split->bits = calloc(words, sizeof *split->bits);
    split->before = calloc(words / BLOCK + 1, sizeof *split->before);
    int code = of.left && of.needed && split->bits && split->before
                   ? divide(split, classes, &of, error)
                   : pock_fail(error, POCK_MEMORY, "out of memory dividing a dataset");
    free(of.left);
    free(of.needed);
    return code;
}

void pock_split_free(pock_split *split) {
    free(split->bits);
    free(split->before);
    memset(split, 0, sizeof *split);
}

uint64_t pock_split_samples(const pock_split *split, int held) {
    return held ? split->held : split->samples - split->held;
}

/* Samples of a part before a block. */
static uint64_t before(const pock_split *split, int held, uint64_t block) {
    return held ? split->before[block] : block * WORD * BLOCK - split->before[block];
}

uint64_t pock_split_at(const pock_split *split, int held, uint64_t index) {
    uint64_t low = 0;
    uint64_t high = (split->samples - 1) / (WORD * BLOCK) + 1;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (before(split, held, middle) <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint64_t word = low * BLOCK;
    uint64_t left = index - before(split, held, low);
    uint64_t bits = held ? split->bits[word] : ~split->bits[word];
    while (left >= (uint64_t)__builtin_popcountll(bits)) {
        left -= (uint64_t)__builtin_popcountll(bits);
        word++;
        bits = held ? split->bits[word] : ~split->bits[word];
    }
    while (left--) {
        bits &= bits - 1;
    }
    return word * WORD + (uint64_t)__builtin_ctzll(bits);
}
