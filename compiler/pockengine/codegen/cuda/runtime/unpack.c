/* As the LZMA specification of its author describes the decoder (LZMA SDK, lzma-specification.txt). */
#include "unpack.h"

#include <stdint.h>

#define POSITIONS 16 /* 1 << pb, and 1 << lp */
#define STATES 12
#define LITERAL 0x300
#define EVEN 1024 /* of 2048: either bit is as likely */

typedef struct {
    uint16_t choice[2], low[POSITIONS][8], mid[POSITIONS][8], high[256];
} lengths;

/* Probabilities that the next bit is 0. */
typedef struct {
    uint16_t match[STATES][POSITIONS], repeat[STATES], other[STATES], second[STATES], third[STATES];
    uint16_t longer[STATES][POSITIONS], slot[4][64], special[115], align[16];
    lengths fresh, again;
    uint16_t literal[POSITIONS][LITERAL];
} model;

_Static_assert(sizeof(model) <= POCK_UNPACK_SPACE, "the model has its space");

typedef struct {
    model *m;
    const unsigned char *from, *from_end;
    unsigned char *to;
    size_t room, done;
    uint32_t range, value, state, distance[4]; /* the last ones, less 1 */
    int failed;
} stream;

static uint32_t next_byte(stream *s) {
    if (s->from == s->from_end) {
        s->failed = 1;
        return 0;
    }
    return *s->from++;
}

static void normalise(stream *s) {
    if (s->range < 1u << 24) {
        s->range <<= 8;
        s->value = s->value << 8 | next_byte(s);
    }
}

static uint32_t bit(stream *s, uint16_t *zero) {
    uint32_t bound = (s->range >> 11) * *zero, one = s->value >= bound;
    if (one) {
        *zero = (uint16_t)(*zero - (*zero >> 5));
        s->range -= bound;
        s->value -= bound;
    } else {
        *zero = (uint16_t)(*zero + ((2048 - *zero) >> 5));
        s->range = bound;
    }
    normalise(s);
    return one;
}

static uint32_t equal_bits(stream *s, uint32_t count) {
    uint32_t found = 0;
    for (; count; count--) {
        s->range >>= 1;
        uint32_t one = s->value >= s->range;
        s->value -= one ? s->range : 0;
        found = found << 1 | one;
        normalise(s);
    }
    return found;
}

static uint32_t tree(stream *s, uint16_t *zero, uint32_t bits) {
    uint32_t found = 1;
    for (uint32_t i = 0; i < bits; i++) {
        found = found << 1 | bit(s, &zero[found]);
    }
    return found - (1u << bits);
}

static uint32_t lowest_first(stream *s, uint16_t *zero, uint32_t bits) {
    uint32_t at = 1, found = 0;
    for (uint32_t i = 0; i < bits; i++) {
        uint32_t one = bit(s, &zero[at]);
        at = at << 1 | one;
        found |= one << i;
    }
    return found;
}

static uint32_t length(stream *s, lengths *of, size_t position) {
    if (!bit(s, &of->choice[0])) {
        return tree(s, of->low[position], 3);
    }
    return bit(s, &of->choice[1]) ? 16 + tree(s, of->high, 8) : 8 + tree(s, of->mid[position], 3);
}

static uint32_t fresh_distance(stream *s, uint32_t length) {
    uint32_t slot = tree(s, s->m->slot[length < 3 ? length : 3], 6), bits = (slot >> 1) - 1;
    if (slot < 4) {
        return slot;
    }
    uint32_t found = (2 | (slot & 1)) << bits;
    if (slot < 14) {
        return found + lowest_first(s, s->m->special + (found - slot), bits);
    }
    found += equal_bits(s, bits - 4) << 4;
    return found + lowest_first(s, s->m->align, 4);
}

static void put(stream *s, unsigned char byte) {
    if (s->done == s->room) {
        s->failed = 1;
    } else {
        s->to[s->done++] = byte;
    }
}

static void copy(stream *s, uint32_t count) {
    s->failed |= s->distance[0] >= s->done;
    for (; count && !s->failed; count--) {
        put(s, s->to[s->done - s->distance[0] - 1]);
    }
}

/* After a match the byte that would have gone on with it is most likely wrong, which the model uses. */
static void literal(stream *s) {
    uint16_t *zero = s->m->literal[s->done % POSITIONS];
    uint32_t symbol = 1;
    s->failed |= s->state >= 7 && s->distance[0] >= s->done;
    if (s->state >= 7 && !s->failed) {
        uint32_t expected = s->to[s->done - s->distance[0] - 1], same = 1;
        for (; symbol < 0x100 && same; expected <<= 1) {
            uint32_t wanted = expected >> 7 & 1, found = bit(s, &zero[((1 + wanted) << 8) + symbol]);
            symbol = symbol << 1 | found;
            same = wanted == found;
        }
    }
    while (symbol < 0x100) {
        symbol = symbol << 1 | bit(s, &zero[symbol]);
    }
    put(s, (unsigned char)symbol);
    s->state = s->state < 4 ? 0 : s->state < 10 ? s->state - 3 : s->state - 6;
}

/* The distance `which` becomes the last one. */
static void recall(stream *s, uint32_t which) {
    uint32_t distance = s->distance[which];
    for (; which; which--) {
        s->distance[which] = s->distance[which - 1];
    }
    s->distance[0] = distance;
}

static void repeated(stream *s, size_t position) {
    uint32_t state = s->state;
    if (!bit(s, &s->m->other[state])) {
        if (!bit(s, &s->m->longer[state][position])) {
            s->state = state < 7 ? 9 : 11;
            copy(s, 1);
            return;
        }
    } else if (!bit(s, &s->m->second[state])) {
        recall(s, 1);
    } else {
        recall(s, 2 + bit(s, &s->m->third[state]));
    }
    s->state = state < 7 ? 8 : 11;
    copy(s, 2 + length(s, &s->m->again, position));
}

static void matched(stream *s, size_t position) {
    uint32_t count = length(s, &s->m->fresh, position), distance = fresh_distance(s, count);
    recall(s, 3);
    s->distance[0] = distance;
    s->state = s->state < 7 ? 7 : 10;
    copy(s, 2 + count);
}

int pock_unpack(unsigned char *to, size_t to_bytes, const unsigned char *from, size_t from_bytes, void *space) {
    stream s = {.m = space, .from = from, .from_end = from + from_bytes, .to = to, .room = to_bytes, .range = UINT32_MAX};
    for (size_t i = 0; i < sizeof(model) / sizeof(uint16_t); i++) {
        ((uint16_t *)space)[i] = EVEN;
    }
    s.failed = next_byte(&s) != 0;
    for (int i = 0; i < 4; i++) {
        s.value = s.value << 8 | next_byte(&s);
    }
    while (s.done < s.room && !s.failed) {
        size_t position = s.done % POSITIONS;
        if (!bit(&s, &s.m->match[s.state][position])) {
            literal(&s);
        } else if (bit(&s, &s.m->repeat[s.state])) {
            repeated(&s, position);
        } else {
            matched(&s, position);
        }
    }
    return !s.failed;
}
