/* raspberry-pi-4, f32, 2 threads */
/* transformed weights of conv2d(f32[1,8,8,8], f32[8,8,3,3]) pad (1, 1, 1, 1): Winograd F(2 x 2, 3 x 3), panels of 2 vectors, threads share tiles */

#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"

typedef float vec __attribute__((vector_size(16), aligned(4), may_alias));

static inline __attribute__((always_inline, unused)) void
transpose(vec *block)
{
    {
        const vec low = __builtin_shufflevector(block[0], block[1], 0, 4, 2, 6);
        block[1] = __builtin_shufflevector(block[0], block[1], 1, 5, 3, 7);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[2], block[3], 0, 4, 2, 6);
        block[3] = __builtin_shufflevector(block[2], block[3], 1, 5, 3, 7);
        block[2] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[0], block[2], 0, 1, 4, 5);
        block[2] = __builtin_shufflevector(block[0], block[2], 2, 3, 6, 7);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[1], block[3], 0, 1, 4, 5);
        block[3] = __builtin_shufflevector(block[1], block[3], 2, 3, 6, 7);
        block[1] = low;
    }
}

static inline __attribute__((always_inline)) void
taps_line(vec x0, vec x1, vec x2, float *to, ptrdiff_t step)
{
    *(vec *)(to + 0 * step) = x0;
    const vec same1 = (1.0f / 2.0f) * x0 + (1.0f / 2.0f) * x2, opposite1 = (1.0f / 2.0f) * x1;
    *(vec *)(to + 1 * step) = same1 + opposite1;
    *(vec *)(to + 2 * step) = same1 - opposite1;
    *(vec *)(to + 3 * step) = x2;
}

static void
transform(const float *taps, float *to)
{
    float half[48] __attribute__((aligned(64)));
    for (ptrdiff_t j = 0; j < 3; ++j) {
        taps_line(*(const vec *)(taps + (0 + j) * 4), *(const vec *)(taps + (3 + j) * 4), *(const vec *)(taps + (6 + j) * 4), half + j * 4, 12);
    }
    for (ptrdiff_t i = 0; i < 4; ++i) {
        taps_line(*(const vec *)(half + (i * 3 + 0) * 4), *(const vec *)(half + (i * 3 + 1) * 4), *(const vec *)(half + (i * 3 + 2) * 4), to + i * 320, 80);
    }
}

static void
weights(const float *w, ptrdiff_t n0, float *to)
{
    for (ptrdiff_t n = 0; n < 8; n += 4) {
        for (ptrdiff_t k = 0; k < 8; k += 4) {
            float taps[144] __attribute__((aligned(64)));
            for (ptrdiff_t e = 0; e < 36; e += 4) {
                vec block[4];
                for (ptrdiff_t i = 0; i < 4; ++i) {
                    block[i] = *(const vec *)(w + (n0 + n + i) * 72 + k * 9 + e);
                }
                transpose(block);
                for (ptrdiff_t i = 0; i < 4; ++i) {
                    *(vec *)(taps + (e + i) * 4) = block[i];
                }
            }
            for (ptrdiff_t i = 0; i < 4; ++i) {
                transform(taps + i * 36, to + (k + i) * 8 + n);
            }
        }
    }
}

void k_winograd_weights_88de74b5ef59345f(void *const *arg, int task, int tasks)
{
    const float *const w = arg[1]; /* f32[8,8,3,3] */
    char *const workspace = arg[5];
    float *const shared = (float *)(void *)(workspace + 0);
    const ptrdiff_t first = (ptrdiff_t)1 * task / tasks;
    const ptrdiff_t last = (ptrdiff_t)1 * (task + 1) / tasks;
    for (ptrdiff_t panel = first; panel < last; ++panel) {
        weights(w, panel * 8, shared + panel * 1280);
    }
}

/* conv2d(f32[1,8,8,8], f32[8,8,3,3]) pad (1, 1, 1, 1): Winograd F(2 x 2, 3 x 3), panels of 2 vectors, threads share tiles */

#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"

typedef float vec __attribute__((vector_size(16), aligned(4), may_alias));

static inline __attribute__((always_inline)) void
image_line(vec x0, vec x1, vec x2, vec x3, float *to, ptrdiff_t step)
{
    *(vec *)(to + 0 * step) = x0 - x2;
    const vec same1 = x2, opposite1 = x1;
    *(vec *)(to + 1 * step) = same1 + opposite1;
    *(vec *)(to + 2 * step) = same1 - opposite1;
    *(vec *)(to + 3 * step) = -x1 + x3;
}

static const float zeros[8];

static void
image(const float *x, ptrdiff_t first, ptrdiff_t last, float *to)
{
    for (ptrdiff_t tile = first; tile < last; ++tile, to += 8) {
        const ptrdiff_t b = (tile) / 16;
        const ptrdiff_t p = (tile) / 4 % 4 * 2, q = (tile) % 4 * 2;
        const float *at[16];
        for (ptrdiff_t i = 0; i < 4; ++i) {
            for (ptrdiff_t j = 0; j < 4; ++j) {
                const ptrdiff_t h = p + i - 1, w = q + j - 1;
                const int inside = h >= 0 && h < 8 && w >= 0 && w < 8;
                at[i * 4 + j] = inside ? x + ((b * 8 + h) * 8 + w) * 8 : zeros;
            }
        }
        for (ptrdiff_t c = 0; c < 8; c += 4) {
            float half[64] __attribute__((aligned(64)));
            for (ptrdiff_t j = 0; j < 4; ++j) {
                image_line(*(const vec *)(at[0 + j] + c), *(const vec *)(at[4 + j] + c), *(const vec *)(at[8 + j] + c), *(const vec *)(at[12 + j] + c), half + j * 4, 16);
            }
            for (ptrdiff_t i = 0; i < 4; ++i) {
                image_line(*(const vec *)(half + (i * 4 + 0) * 4), *(const vec *)(half + (i * 4 + 1) * 4), *(const vec *)(half + (i * 4 + 2) * 4), *(const vec *)(half + (i * 4 + 3) * 4), to + i * 320 + c, 80);
            }
        }
    }
}

static inline __attribute__((always_inline)) void
finish(void *const *arg, ptrdiff_t b, ptrdiff_t m0, ptrdiff_t n0, const float *tile, ptrdiff_t step, ptrdiff_t rows,
ptrdiff_t cols)
{
    for (ptrdiff_t m = 0; m < rows; ++m) {
        const float *const x2_row = (const float *)arg[2] + 0;
        uint8_t *const out3_row = (uint8_t *)arg[3] + ((m0 + m)) * 8;
        float *const out4_row = (float *)arg[4] + ((m0 + m)) * 8;
#pragma clang loop vectorize(assume_safety) unroll(disable)
        for (ptrdiff_t n = 0; n < cols; ++n) {
            const float product = tile[m * step + n];
            const float x2 = x2_row[(n0 + n)];
            const float v3 = product + x2;
            const uint8_t v4 = 0.0f < v3;
            const float v5 = v3 < 0.0f ? 0.0f : v3;
            out3_row[(n0 + n)] = v4;
            out4_row[(n0 + n)] = v5;
        }
    }
}

static __attribute__((noinline)) void
tile_8x2(ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    vec c0_0 = {0}, c0_1 = {0};
    vec c1_0 = {0}, c1_1 = {0};
    vec c2_0 = {0}, c2_1 = {0};
    vec c3_0 = {0}, c3_1 = {0};
    vec c4_0 = {0}, c4_1 = {0};
    vec c5_0 = {0}, c5_1 = {0};
    vec c6_0 = {0}, c6_1 = {0};
    vec c7_0 = {0}, c7_1 = {0};
    for (ptrdiff_t k = 0; k < depth; k += 1) {
        const vec b0 = *(const vec *)(b + 0), b1 = *(const vec *)(b + 4);
        const float a0 = a[0]; c0_0 += a0 * b0; c0_1 += a0 * b1;
        const float a1 = a[8]; c1_0 += a1 * b0; c1_1 += a1 * b1;
        const float a2 = a[16]; c2_0 += a2 * b0; c2_1 += a2 * b1;
        const float a3 = a[24]; c3_0 += a3 * b0; c3_1 += a3 * b1;
        const float a4 = a[32]; c4_0 += a4 * b0; c4_1 += a4 * b1;
        const float a5 = a[40]; c5_0 += a5 * b0; c5_1 += a5 * b1;
        const float a6 = a[48]; c6_0 += a6 * b0; c6_1 += a6 * b1;
        const float a7 = a[56]; c7_0 += a7 * b0; c7_1 += a7 * b1;
        a += 1;
        b += 8;
    }
    if (more) {
        c0_0 += *(vec *)(c + 0); c0_1 += *(vec *)(c + 4);
        c1_0 += *(vec *)(c + 8); c1_1 += *(vec *)(c + 12);
        c2_0 += *(vec *)(c + 16); c2_1 += *(vec *)(c + 20);
        c3_0 += *(vec *)(c + 24); c3_1 += *(vec *)(c + 28);
        c4_0 += *(vec *)(c + 32); c4_1 += *(vec *)(c + 36);
        c5_0 += *(vec *)(c + 40); c5_1 += *(vec *)(c + 44);
        c6_0 += *(vec *)(c + 48); c6_1 += *(vec *)(c + 52);
        c7_0 += *(vec *)(c + 56); c7_1 += *(vec *)(c + 60);
    }
    *(vec *)(c + 0) = c0_0; *(vec *)(c + 4) = c0_1;
    *(vec *)(c + 8) = c1_0; *(vec *)(c + 12) = c1_1;
    *(vec *)(c + 16) = c2_0; *(vec *)(c + 20) = c2_1;
    *(vec *)(c + 24) = c3_0; *(vec *)(c + 28) = c3_1;
    *(vec *)(c + 32) = c4_0; *(vec *)(c + 36) = c4_1;
    *(vec *)(c + 40) = c5_0; *(vec *)(c + 44) = c5_1;
    *(vec *)(c + 48) = c6_0; *(vec *)(c + 52) = c6_1;
    *(vec *)(c + 56) = c7_0; *(vec *)(c + 60) = c7_1;
}

static void
multiply(ptrdiff_t count, const float *image, const float *weights, float *sums)
{
    for (ptrdiff_t point = 0; point < 16; ++point) {
        for (ptrdiff_t m = 0; m < count; m += 8) {
            const ptrdiff_t rows = count - m < 8 ? count - m : 8;
            const float *const a = image + point * 80 + m * 8;
            const float *const b = weights + point * 80;
            float *const c = sums + point * 80 + m * 8;
            if (rows == 8)
                tile_8x2(8, a, b, c, 0);
        }
    }
}

static inline __attribute__((always_inline)) void
result_line(vec x0, vec x1, vec x2, vec x3, float *to, ptrdiff_t step)
{
    *(vec *)(to + 0 * step) = x0 + x1 + x2;
    *(vec *)(to + 1 * step) = x1 - x2 + x3;
}

static void
results(void *const *arg, ptrdiff_t start, ptrdiff_t count, ptrdiff_t n0, const float *sums)
{
    for (ptrdiff_t tile = 0; tile < count; ++tile) {
        const ptrdiff_t b = (start + tile) / 16;
        const ptrdiff_t p = (start + tile) / 4 % 4 * 2, q = (start + tile) % 4 * 2;
        float pixels[32] __attribute__((aligned(64)));
        for (ptrdiff_t n = 0; n < 8; n += 4) {
            const float *const from = sums + tile * 8 + n;
            float half[32] __attribute__((aligned(64)));
            for (ptrdiff_t j = 0; j < 4; ++j) {
                result_line(*(const vec *)(from + (0 + j) * 80), *(const vec *)(from + (4 + j) * 80), *(const vec *)(from + (8 + j) * 80), *(const vec *)(from + (12 + j) * 80), half + j * 4, 16);
            }
            for (ptrdiff_t i = 0; i < 2; ++i) {
                result_line(*(const vec *)(half + (i * 4 + 0) * 4), *(const vec *)(half + (i * 4 + 1) * 4), *(const vec *)(half + (i * 4 + 2) * 4), *(const vec *)(half + (i * 4 + 3) * 4), pixels + i * 16 + n, 8);
            }
        }
        const ptrdiff_t high = 8 - p < 2 ? 8 - p : 2;
        const ptrdiff_t wide = 8 - q < 2 ? 8 - q : 2;
        for (ptrdiff_t i = 0; i < high; ++i) {
            finish(arg, 0, (b * 8 + p + i) * 8 + q, n0, pixels + i * 16, 8, wide, 8);
        }
    }
}

void k_winograd_a9f1540bf4d8e50a(void *const *arg, int task, int tasks)
{
    const float *const x = arg[0]; /* f32[1,8,8,8] */
    char *const workspace = arg[5];
    float *const shared = (float *)(void *)(workspace + 0);
    float *const own = (float *)(void *)(workspace + 5120 + task * (ptrdiff_t)10240);
    float *const sums = (float *)(void *)(workspace + 10240 + task * (ptrdiff_t)10240);
    const ptrdiff_t first = (ptrdiff_t)2 * task / tasks;
    const ptrdiff_t last = (ptrdiff_t)2 * (task + 1) / tasks;
    const ptrdiff_t end = last * 8 < 16 ? last * 8 : 16;
    for (ptrdiff_t start = first * 8; start < end; start += 8) {
        const ptrdiff_t count = end - start < 8 ? end - start : 8;
        image(x, start, start + count, own);
        for (ptrdiff_t panel = 0; panel < 1; ++panel) {
            multiply(count, own, shared + panel * 1280, sums);
            results(arg, start, count, panel * 8, sums);
        }
    }
}
