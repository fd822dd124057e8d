/* What the instructions of AVX512-BF16 and of AMX tiles compute, in C: kernels for a processor that has them run on one
 * that does not. Intel's manual (319433), "VDPBF16PS" and "TDPBF16PS", says in which order products are added up. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float one_of_pair(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static inline void add_pairs(float *sums, const uint16_t *a, const uint16_t *b, int lanes) {
    for (int i = 0; i < lanes; ++i) {
        sums[i] = __builtin_fmaf(one_of_pair(a[2 * i + 1]), one_of_pair(b[2 * i + 1]), sums[i]);
        sums[i] = __builtin_fmaf(one_of_pair(a[2 * i]), one_of_pair(b[2 * i]), sums[i]);
    }
}

#define DOT(c, a, b) \
    ({ \
        union { __typeof__(c) vector; float numbers[sizeof(c) / 4]; } sums = {(c)}; \
        union { __typeof__(a) vector; uint16_t numbers[sizeof(a) / 2]; } left = {(a)}, right = {(b)}; \
        add_pairs(sums.numbers, left.numbers, right.numbers, (int)(sizeof(c) / 4)); \
        sums.vector; \
    })
#define __builtin_ia32_dpbf16ps_128 DOT
#define __builtin_ia32_dpbf16ps_256 DOT
#define __builtin_ia32_dpbf16ps_512 DOT

/* What compilers call to round where no instruction does: to nearest, ties to even. */
__attribute__((weak)) __bf16 __truncsfbf2(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint16_t high = (uint16_t)(value == value ? (bits + 0x7fff + ((bits >> 16) & 1)) >> 16 : bits >> 16 | 0x40);
    __bf16 rounded;
    memcpy(&rounded, &high, sizeof rounded);
    return rounded;
}

enum { TILE_COUNT = 8, TILE_HEIGHT = 16, TILE_WIDTH = 64 /* bytes */ };
static _Thread_local char tile_register[TILE_COUNT][TILE_HEIGHT][TILE_WIDTH];

static inline void load_tile(int tile, const void *from, ptrdiff_t stride) {
    for (int row = 0; row < TILE_HEIGHT; ++row)
        memcpy(tile_register[tile][row], (const char *)from + row * stride, TILE_WIDTH);
}

static inline void store_tile(int tile, void *to, ptrdiff_t stride) {
    for (int row = 0; row < TILE_HEIGHT; ++row)
        memcpy((char *)to + row * stride, tile_register[tile][row], TILE_WIDTH);
}

static inline void multiply_tiles(int c, int a, int b) {
    for (int row = 0; row < TILE_HEIGHT; ++row) {
        float even[TILE_WIDTH / 4] = {0}, odd[TILE_WIDTH / 4] = {0}, *sums = (float *)(void *)tile_register[c][row];
        for (int k = 0; k < TILE_HEIGHT; ++k) {
            const uint16_t *left = (const uint16_t *)(const void *)tile_register[a][row] + 2 * k;
            const uint16_t *right = (const uint16_t *)(const void *)tile_register[b][k];
            for (int column = 0; column < TILE_WIDTH / 4; ++column) {
                even[column] = __builtin_fmaf(one_of_pair(left[0]), one_of_pair(right[2 * column]), even[column]);
                odd[column] = __builtin_fmaf(one_of_pair(left[1]), one_of_pair(right[2 * column + 1]), odd[column]);
            }
        }
        for (int column = 0; column < TILE_WIDTH / 4; ++column)
            sums[column] += even[column] + odd[column];
    }
}

#define __builtin_ia32_tile_loadconfig(shape) ((void)(shape)) /* all tiles are whole ones */
#define __builtin_ia32_tilerelease() ((void)0)
#define __builtin_ia32_tilezero(tile) ((void)memset(tile_register[tile], 0, sizeof tile_register[tile]))
#define __builtin_ia32_tileloadd64(tile, from, stride) load_tile(tile, from, stride)
#define __builtin_ia32_tilestored64(tile, to, stride) store_tile(tile, to, stride)
#define __builtin_ia32_tdpbf16ps(c, a, b) multiply_tiles(c, a, b)
