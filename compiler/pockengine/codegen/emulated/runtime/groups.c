/* What `wgmma` computes: tiles are found by their descriptions, as a GPU finds them (PTX ISA 8.7, "Matrix descriptor format"). */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST_THREADS 1024
#define MOST_BEGUN 64
#define MOST_TERMS 32
#define SWIZZLE_128 1ull
#define LINES 1024 /* bytes after which pieces lie in the same order again */

/* What a thread of the block has begun, the oldest first; whether it has made its copies visible, and its sums ready. */
typedef struct {
    struct {
        float *sums;
        uint64_t left, right;
        int left_across, right_across, columns, format, group;
    } products[MOST_BEGUN];
    int count, group, seen, ready;
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

void pock_group_begin(void) {
    begun *own = mine();
    check(own->seen, "matrix units read what was not made visible to them");
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

void pock_group_multiply(float *sums, uint64_t left, uint64_t right, int left_across, int right_across, int columns, int format) {
    begun *own = mine();
    check(own->ready && own->count < MOST_BEGUN, "sums are not ready, or a thread has begun too many products");
    check(format != POCK_MATRIX_E4M3 || !(left_across || right_across), "tiles of 8-bit floats lie along k");
    own->products[own->count].sums = sums;
    own->products[own->count].left = left;
    own->products[own->count].right = right;
    own->products[own->count].left_across = left_across;
    own->products[own->count].right_across = right_across;
    own->products[own->count].columns = columns;
    own->products[own->count].format = format;
    own->products[own->count++].group = own->group;
}

void pock_group_begun(void) {
    begun *own = mine();
    own->group++;
    own->seen = own->ready = 0;
}

/* The thread's part of the oldest product. */
static void multiply(const begun *own, int which) {
    int row = pock_thread % 128 / 32 * 16 + pock_thread % 32 / 4, t = pock_thread % 4, format = own->products[which].format;
    int terms = format == POCK_MATRIX_E4M3 ? 32 : 16;
    float left[2][MOST_TERMS];
    for (int i = 0; i < 2 * terms; i++) {
        left[i / terms][i % terms] =
            number(own->products[which].left, own->products[which].left_across, row + i / terms * 8, i % terms, format);
    }
    for (int column = 0; column < own->products[which].columns; column += 8) {
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < terms; k++) {
                float right = number(own->products[which].right, own->products[which].right_across, column + 2 * t + i, k, format);
                own->products[which].sums[column / 2 + i] += left[0][k] * right;
                own->products[which].sums[column / 2 + 2 + i] += left[1][k] * right;
            }
        }
    }
}

void pock_group_wait(int most) {
    begun *own = mine();
    int done = 0;
    while (done < own->count && own->products[done].group < own->group - most) {
        multiply(own, done++);
    }
    own->count -= done;
    for (int i = 0; i < own->count; i++) {
        own->products[i] = own->products[i + done];
    }
    pock_meet_warp();
}
