/* What `wgmma` computes: tiles are found by their descriptions, as a GPU finds them (PTX ISA 8.7, "Matrix descriptor format"). */
#include "emulator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 1024
#define MOST_BEGUN 64
#define MOST_TERMS 32
#define SWIZZLE_128 1ull
#define LINES 1024 /* bytes after which pieces lie in the same order again */

/* What a thread of the block has begun, the oldest first; whether it has made its copies visible, and its sums ready. */
typedef struct {
    struct {
        pock_products asked;
        int group;
    } products[MOST_BEGUN];
    int count, group, seen, ready;
    int engine; /* it has waited for what the engine copies */
} begun;

static _Thread_local begun *threads;

static begun *mine(void) {
    if (!threads && !(threads = calloc(MOST_THREADS, sizeof *threads))) {
        fprintf(stderr, "not enough memory for the products of %d threads\n", MOST_THREADS);
        abort();
    }
    return &threads[pock_fiber];
}

static void check(int right, const char *what) {
    if (!right) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

void pock_groups_end(void) {
    if (threads) {
        memset(threads, 0, MOST_THREADS * sizeof *threads);
    }
}

/* Where shared memory begins, for addresses. */
static char *window(void) {
    return (char *)((uintptr_t)pock_pool & ~(uintptr_t)(LINES - 1));
}

char *pock_pool_lines(void) {
    return window() + LINES;
}

uint64_t pock_tile(const void *first, int further, int on) {
    uint64_t address = (uint64_t)((const char *)first - window());
    check(address % 16 == 0 && address < 1 << 18, "a tile does not begin at a multiple of 16 bytes of shared memory");
    return address >> 4 | (uint64_t)further >> 4 << 16 | (uint64_t)on >> 4 << 32 | SWIZZLE_128 << 62;
}

void pock_copies_seen(void) {
    mine()->seen = 1;
}

void pock_engine_seen(void) {
    mine()->engine = 1;
}

void pock_group_begin(void) {
    begun *own = mine();
    check(own->seen || own->engine, "matrix units read what was not made visible to them");
    own->ready = 1;
}

/* A number of a tile: row or column `x`, term `k`. */
static float number(uint64_t tile, int across, int x, int k, int format) {
    uint64_t first = (tile & 0x3FFF) << 4, further = (tile >> 16 & 0x3FFF) << 4, on = (tile >> 32 & 0x3FFF) << 4;
    int itemsize = format == POCK_MATRIX_E4M3 ? 1 : 2;
    uint64_t address = across ? first + (uint64_t)(x / 64) * further + (uint64_t)(k / 8) * on + (uint64_t)(k % 8 * 128 + x % 64 * 2)
                              : first + (uint64_t)(x / 8) * on + (uint64_t)(x % 8 * 128 + k * itemsize);
    address ^= (address >> 7 & 7) << 4;
    const unsigned char *at = (const unsigned char *)window() + address;
    return pock_number_of(itemsize == 1 ? at[0] : at[0] | (uint32_t)at[1] << 8, format);
}

void pock_group_multiply(const pock_products *asked) {
    begun *own = mine();
    check(own->ready && own->count < MOST_BEGUN, "sums are not ready, or a thread has begun too many products");
    check(asked->format != POCK_MATRIX_E4M3 || !(asked->left_across || asked->right_across), "tiles of 8-bit floats lie along k");
    for (int i = 0; asked->anew && i < asked->columns / 2; i++) {
        asked->sums[i] = NAN;
    }
    own->products[own->count].asked = *asked;
    own->products[own->count++].group = own->group;
}

void pock_group_begun(void) {
    begun *own = mine();
    own->group++;
    own->seen = own->ready = 0;
}

/* Term `k` of row g or, where `below`, 8 + g of what the warp holds. */
static float held(int which, int below, int k, int format) {
    const begun *other = &threads[(pock_fiber & ~3) + k % 8 / 2];
    uint32_t word = other->products[which].asked.held[k / 8 * 2 + below];
    return pock_number_of(word >> k % 2 * 16 & 0xFFFF, format);
}

/* The thread's part of a product. */
static void multiply(const pock_products *asked, int which) {
    int row = pock_thread % 128 / 32 * 16 + pock_thread % 32 / 4, t = pock_thread % 4, format = asked->format;
    int terms = format == POCK_MATRIX_E4M3 ? 32 : 16;
    float left[2][MOST_TERMS];
    for (int i = 0; i < 2 * terms; i++) {
        int below = i / terms, k = i % terms;
        left[below][k] =
            asked->held ? held(which, below, k, format) : number(asked->left, asked->left_across, row + below * 8, k, format);
    }
    for (int i = 0; asked->anew && i < asked->columns / 2; i++) {
        asked->sums[i] = 0;
    }
    for (int column = 0; column < asked->columns; column += 8) {
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < terms; k++) {
                float right = number(asked->right, asked->right_across, column + 2 * t + i, k, format);
                asked->sums[column / 2 + i] += left[0][k] * right;
                asked->sums[column / 2 + 2 + i] += left[1][k] * right;
            }
        }
    }
}

void pock_group_wait(int most) {
    begun *own = mine();
    int done = 0;
    pock_meet_warp(); /* each reads what its neighbours hold */
    for (; done < own->count && own->products[done].group < own->group - most; done++) {
        multiply(&own->products[done].asked, done);
    }
    pock_meet_warp();
    own->count -= done;
    for (int i = 0; i < own->count; i++) {
        own->products[i] = own->products[i + done];
    }
}
