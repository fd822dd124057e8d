/* What `mma.sync` computes, by the 32 threads of a warp together. */
#include "emulator.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 1024

/* The words of each thread of the block. */
static _Thread_local struct {
    uint32_t left[4], right[2];
} given[MOST_THREADS];
static _Thread_local float quads[MOST_THREADS];

static uint32_t bits_of(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static float number_of(uint32_t bits) {
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static uint32_t bf16(float number) {
    uint32_t bits = bits_of(number);
    return number != number ? 0x7FFF : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
}

static uint32_t f16(float number) {
    _Float16 half = (_Float16)number;
    uint16_t bits;
    memcpy(&bits, &half, sizeof bits);
    return bits;
}

uint32_t pock_pack_bf16(float low, float high) {
    return bf16(low) | bf16(high) << 16;
}

uint32_t pock_pack_f16(float low, float high) {
    return f16(low) | f16(high) << 16;
}

uint32_t pock_tf32(float number) {
    return number != number ? 0x7FFFE000 : (bits_of(number) + 0x1000) & 0xFFFFE000;
}

/* Of 4 bits of exponent and 3 of mantissa. */
static float e4m3(uint32_t code) {
    int exponent = (int)(code >> 3 & 15), mantissa = (int)(code & 7);
    float magnitude = exponent ? ldexpf(1.0f + (float)mantissa / 8, exponent - 7) : ldexpf((float)mantissa, -9);
    magnitude = (code & 127) == 127 ? NAN : magnitude;
    return code & 128 ? -magnitude : magnitude;
}

float pock_number_of(uint32_t bits, int format) {
    if (format == POCK_MATRIX_E4M3) {
        return e4m3(bits);
    }
    if (format == POCK_MATRIX_BF16) {
        return number_of(bits << 16);
    }
    uint16_t small = (uint16_t)bits;
    _Float16 half;
    memcpy(&half, &small, sizeof half);
    return (float)half;
}

static float product(uint32_t left, uint32_t right, int format) {
    if (format == POCK_MATRIX_TF32) {
        return number_of(left) * number_of(right);
    }
    int bits = format == POCK_MATRIX_E4M3 ? 8 : 16;
    uint32_t mask = (1u << bits) - 1;
    float sum = 0;
    for (int at = 0; at < 32; at += bits) {
        sum += pock_number_of(left >> at & mask, format) * pock_number_of(right >> at & mask, format);
    }
    return sum;
}

static void check_rows(const void *first, int pitch_bytes) {
    if ((uintptr_t)first % 16 || pitch_bytes % 16) {
        fprintf(stderr, "a fragment's rows do not begin at multiples of 16 bytes\n");
        abort();
    }
}

void pock_fragment_across(uint32_t *words, const void *first, int pitch) {
    const uint16_t *rows = first;
    int g = pock_thread % 32 / 4, t = pock_thread % 4;
    check_rows(first, pitch * 2);
    for (int i = 0; i < 4; i++) {
        const uint16_t *low = rows + (2 * t + i / 2 * 8) * pitch + g + i % 2 * 8;
        words[i] = low[0] | (uint32_t)low[pitch] << 16;
    }
}

void pock_fragment(uint32_t *words, const void *first, int pitch) {
    const uint32_t *rows = first;
    int g = pock_thread % 32 / 4, t = pock_thread % 4;
    check_rows(first, pitch * 4);
    for (int i = 0; i < 4; i++) {
        words[i] = rows[(g + i % 2 * 8) * pitch + i / 2 * 4 + t];
    }
}

/* What four neighbours have together, in the order in which a GPU exchanges it. */
float pock_quad(float number, int largest) {
    int first = pock_fiber & ~3, own = pock_fiber & 3;
    quads[pock_fiber] = number;
    pock_meet_warp();
    float has[4];
    for (int i = 0; i < 4; i++) {
        has[i] = quads[first + (own ^ i)];
    }
    pock_meet_warp();
    if (largest) {
        return fmaxf(fmaxf(has[0], has[1]), fmaxf(has[2], has[3]));
    }
    return has[0] + has[1] + (has[2] + has[3]);
}

void pock_multiply(float *sums, const uint32_t *left, const uint32_t *right, int format) {
    int warp = pock_thread & ~31, g = pock_thread % 32 / 4, t = pock_thread % 4;
    memcpy(given[pock_thread].left, left, sizeof given->left);
    memcpy(given[pock_thread].right, right, sizeof given->right);
    pock_barrier();
    for (int i = 0; i < 4; i++) {
        int row = g + i / 2 * 8, column = 2 * t + i % 2;
        for (int word = 0; word < 8; word++) {
            const uint32_t *l = given[warp + row % 8 * 4 + word % 4].left, *r = given[warp + column * 4 + word % 4].right;
            sums[i] += product(l[row / 8 + word / 4 * 2], r[word / 4], format);
        }
    }
    pock_barrier();
}
