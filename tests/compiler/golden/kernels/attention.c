/* x86-64-v3, f32, 2 threads */
/* attention(f32[1,2,70,8], f32[1,2,70,8], f32[1,2,70,8]) {'scale': 0.5, 'causal': False}: Blocks(batch=1, heads=2, key_heads=2, m=70, n=70, depth=8, width=8, queries=64, keys=64, rows=6, vectors=2, lanes=8, scale=0.5, softcap=0.0, causal=False, inside=False) */

#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"

static inline int32_t pock_bits(float x)
{
    union { float f; int32_t i; } u = {x};
    return u.i;
}

static inline float pock_float(int32_t bits)
{
    union { int32_t i; float f; } u = {bits};
    return u.f;
}

static inline float pock_exp(float x)
{
    const float c = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
    const float shifted = c * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: the low bits hold round(x / ln 2) */
    const float n = shifted - 12582912.0f;
    const int32_t k = pock_bits(shifted) - 0x4B400000;
    const float r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    const int32_t half = k >> 1;
    return p * pock_float((int32_t)((uint32_t)(half + 127) << 23)) * pock_float((int32_t)((uint32_t)(k - half + 127)
    << 23));
}

static inline float pock_log(float x)
{
    const int tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 8388608.0f : x;
    const int32_t bits = pock_bits(scaled);
    /* mantissa in [sqrt(1/2), sqrt(2)) */
    const int32_t k = (int32_t)((uint32_t)bits - 0x3F3504F3u) >> 23;
    const float m = pock_float((int32_t)((uint32_t)bits - ((uint32_t)k << 23))) - 1.0f;
    const float e = (float)(tiny ? k - 23 : k);
    const float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    float y = m * z * p - e * 2.12194440e-4f - 0.5f * z;
    y = m + y + e * 0.693359375f;
    y = x == __builtin_inff() ? x : y;
    y = x == 0.0f ? -__builtin_inff() : y;
    return ((x < 0.0f) | (x != x)) ? __builtin_nanf("") : y;
}

typedef float vec __attribute__((vector_size(32), aligned(4), may_alias));

static __attribute__((noinline)) void
score_tile_6x2(ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    vec c0_0 = {0}, c0_1 = {0};
    vec c1_0 = {0}, c1_1 = {0};
    vec c2_0 = {0}, c2_1 = {0};
    vec c3_0 = {0}, c3_1 = {0};
    vec c4_0 = {0}, c4_1 = {0};
    vec c5_0 = {0}, c5_1 = {0};
    if (more) {
        __builtin_prefetch(c + 0, 1);
        __builtin_prefetch(c + 64, 1);
        __builtin_prefetch(c + 128, 1);
        __builtin_prefetch(c + 192, 1);
        __builtin_prefetch(c + 256, 1);
        __builtin_prefetch(c + 320, 1);
    }
    for (ptrdiff_t k = 0; k < depth; k += 1) {
        __builtin_prefetch(b + 768);
        const vec b0 = *(const vec *)(b + 0), b1 = *(const vec *)(b + 8);
        const float a0 = a[0]; c0_0 += a0 * b0; c0_1 += a0 * b1;
        const float a1 = a[8]; c1_0 += a1 * b0; c1_1 += a1 * b1;
        const float a2 = a[16]; c2_0 += a2 * b0; c2_1 += a2 * b1;
        const float a3 = a[24]; c3_0 += a3 * b0; c3_1 += a3 * b1;
        const float a4 = a[32]; c4_0 += a4 * b0; c4_1 += a4 * b1;
        const float a5 = a[40]; c5_0 += a5 * b0; c5_1 += a5 * b1;
        a += 1;
        b += 64;
    }
    if (more) {
        c0_0 += *(vec *)(c + 0); c0_1 += *(vec *)(c + 8);
        c1_0 += *(vec *)(c + 64); c1_1 += *(vec *)(c + 72);
        c2_0 += *(vec *)(c + 128); c2_1 += *(vec *)(c + 136);
        c3_0 += *(vec *)(c + 192); c3_1 += *(vec *)(c + 200);
        c4_0 += *(vec *)(c + 256); c4_1 += *(vec *)(c + 264);
        c5_0 += *(vec *)(c + 320); c5_1 += *(vec *)(c + 328);
    }
    *(vec *)(c + 0) = c0_0; *(vec *)(c + 8) = c0_1;
    *(vec *)(c + 64) = c1_0; *(vec *)(c + 72) = c1_1;
    *(vec *)(c + 128) = c2_0; *(vec *)(c + 136) = c2_1;
    *(vec *)(c + 192) = c3_0; *(vec *)(c + 200) = c3_1;
    *(vec *)(c + 256) = c4_0; *(vec *)(c + 264) = c4_1;
    *(vec *)(c + 320) = c5_0; *(vec *)(c + 328) = c5_1;
}

static __attribute__((noinline)) void
score_tile_4x2(ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    vec c0_0 = {0}, c0_1 = {0};
    vec c1_0 = {0}, c1_1 = {0};
    vec c2_0 = {0}, c2_1 = {0};
    vec c3_0 = {0}, c3_1 = {0};
    if (more) {
        __builtin_prefetch(c + 0, 1);
        __builtin_prefetch(c + 64, 1);
        __builtin_prefetch(c + 128, 1);
        __builtin_prefetch(c + 192, 1);
    }
    for (ptrdiff_t k = 0; k < depth; k += 1) {
        __builtin_prefetch(b + 768);
        const vec b0 = *(const vec *)(b + 0), b1 = *(const vec *)(b + 8);
        const float a0 = a[0]; c0_0 += a0 * b0; c0_1 += a0 * b1;
        const float a1 = a[8]; c1_0 += a1 * b0; c1_1 += a1 * b1;
        const float a2 = a[16]; c2_0 += a2 * b0; c2_1 += a2 * b1;
        const float a3 = a[24]; c3_0 += a3 * b0; c3_1 += a3 * b1;
        a += 1;
        b += 64;
    }
    if (more) {
        c0_0 += *(vec *)(c + 0); c0_1 += *(vec *)(c + 8);
        c1_0 += *(vec *)(c + 64); c1_1 += *(vec *)(c + 72);
        c2_0 += *(vec *)(c + 128); c2_1 += *(vec *)(c + 136);
        c3_0 += *(vec *)(c + 192); c3_1 += *(vec *)(c + 200);
    }
    *(vec *)(c + 0) = c0_0; *(vec *)(c + 8) = c0_1;
    *(vec *)(c + 64) = c1_0; *(vec *)(c + 72) = c1_1;
    *(vec *)(c + 128) = c2_0; *(vec *)(c + 136) = c2_1;
    *(vec *)(c + 192) = c3_0; *(vec *)(c + 200) = c3_1;
}

static void
score(ptrdiff_t rows, ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    for (ptrdiff_t m = 0; m < rows; m += 6) {
        const ptrdiff_t left = rows - m < 6 ? rows - m : 6;
        for (ptrdiff_t n = 0; n < 64; n += 16) {
            if (left == 6)
                score_tile_6x2(depth, a + m * 8, b + n, c + m * 64 + n, more);
            if (left == 4)
                score_tile_4x2(depth, a + m * 8, b + n, c + m * 64 + n, more);
        }
    }
}

static __attribute__((noinline)) void
weigh_tile_6x1(ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    vec c0_0 = {0};
    vec c1_0 = {0};
    vec c2_0 = {0};
    vec c3_0 = {0};
    vec c4_0 = {0};
    vec c5_0 = {0};
    if (more) {
        __builtin_prefetch(c + 0, 1);
        __builtin_prefetch(c + 8, 1);
        __builtin_prefetch(c + 16, 1);
        __builtin_prefetch(c + 24, 1);
        __builtin_prefetch(c + 32, 1);
        __builtin_prefetch(c + 40, 1);
    }
    for (ptrdiff_t k = 0; k < depth; k += 1) {
        __builtin_prefetch(b + 96);
        const vec b0 = *(const vec *)(b + 0);
        const float a0 = a[0]; c0_0 += a0 * b0;
        const float a1 = a[1]; c1_0 += a1 * b0;
        const float a2 = a[2]; c2_0 += a2 * b0;
        const float a3 = a[3]; c3_0 += a3 * b0;
        const float a4 = a[4]; c4_0 += a4 * b0;
        const float a5 = a[5]; c5_0 += a5 * b0;
        a += 64;
        b += 8;
    }
    if (more) {
        c0_0 += *(vec *)(c + 0);
        c1_0 += *(vec *)(c + 8);
        c2_0 += *(vec *)(c + 16);
        c3_0 += *(vec *)(c + 24);
        c4_0 += *(vec *)(c + 32);
        c5_0 += *(vec *)(c + 40);
    }
    *(vec *)(c + 0) = c0_0;
    *(vec *)(c + 8) = c1_0;
    *(vec *)(c + 16) = c2_0;
    *(vec *)(c + 24) = c3_0;
    *(vec *)(c + 32) = c4_0;
    *(vec *)(c + 40) = c5_0;
}

static __attribute__((noinline)) void
weigh_tile_4x1(ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    vec c0_0 = {0};
    vec c1_0 = {0};
    vec c2_0 = {0};
    vec c3_0 = {0};
    if (more) {
        __builtin_prefetch(c + 0, 1);
        __builtin_prefetch(c + 8, 1);
        __builtin_prefetch(c + 16, 1);
        __builtin_prefetch(c + 24, 1);
    }
    for (ptrdiff_t k = 0; k < depth; k += 1) {
        __builtin_prefetch(b + 96);
        const vec b0 = *(const vec *)(b + 0);
        const float a0 = a[0]; c0_0 += a0 * b0;
        const float a1 = a[1]; c1_0 += a1 * b0;
        const float a2 = a[2]; c2_0 += a2 * b0;
        const float a3 = a[3]; c3_0 += a3 * b0;
        a += 64;
        b += 8;
    }
    if (more) {
        c0_0 += *(vec *)(c + 0);
        c1_0 += *(vec *)(c + 8);
        c2_0 += *(vec *)(c + 16);
        c3_0 += *(vec *)(c + 24);
    }
    *(vec *)(c + 0) = c0_0;
    *(vec *)(c + 8) = c1_0;
    *(vec *)(c + 16) = c2_0;
    *(vec *)(c + 24) = c3_0;
}

static void
weigh(ptrdiff_t rows, ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    for (ptrdiff_t m = 0; m < rows; m += 6) {
        const ptrdiff_t left = rows - m < 6 ? rows - m : 6;
        for (ptrdiff_t n = 0; n < 8; n += 8) {
            if (left == 6)
                weigh_tile_6x1(depth, a + m * 1, b + n, c + m * 8 + n, more);
            if (left == 4)
                weigh_tile_4x1(depth, a + m * 1, b + n, c + m * 8 + n, more);
        }
    }
}

static inline __attribute__((always_inline, unused)) void
transpose(vec *block)
{
    {
        const vec low = __builtin_shufflevector(block[0], block[1], 0, 8, 2, 10, 4, 12, 6, 14);
        block[1] = __builtin_shufflevector(block[0], block[1], 1, 9, 3, 11, 5, 13, 7, 15);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[2], block[3], 0, 8, 2, 10, 4, 12, 6, 14);
        block[3] = __builtin_shufflevector(block[2], block[3], 1, 9, 3, 11, 5, 13, 7, 15);
        block[2] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[4], block[5], 0, 8, 2, 10, 4, 12, 6, 14);
        block[5] = __builtin_shufflevector(block[4], block[5], 1, 9, 3, 11, 5, 13, 7, 15);
        block[4] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[6], block[7], 0, 8, 2, 10, 4, 12, 6, 14);
        block[7] = __builtin_shufflevector(block[6], block[7], 1, 9, 3, 11, 5, 13, 7, 15);
        block[6] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[0], block[2], 0, 1, 8, 9, 4, 5, 12, 13);
        block[2] = __builtin_shufflevector(block[0], block[2], 2, 3, 10, 11, 6, 7, 14, 15);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[1], block[3], 0, 1, 8, 9, 4, 5, 12, 13);
        block[3] = __builtin_shufflevector(block[1], block[3], 2, 3, 10, 11, 6, 7, 14, 15);
        block[1] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[4], block[6], 0, 1, 8, 9, 4, 5, 12, 13);
        block[6] = __builtin_shufflevector(block[4], block[6], 2, 3, 10, 11, 6, 7, 14, 15);
        block[4] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[5], block[7], 0, 1, 8, 9, 4, 5, 12, 13);
        block[7] = __builtin_shufflevector(block[5], block[7], 2, 3, 10, 11, 6, 7, 14, 15);
        block[5] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[0], block[4], 0, 1, 2, 3, 8, 9, 10, 11);
        block[4] = __builtin_shufflevector(block[0], block[4], 4, 5, 6, 7, 12, 13, 14, 15);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[1], block[5], 0, 1, 2, 3, 8, 9, 10, 11);
        block[5] = __builtin_shufflevector(block[1], block[5], 4, 5, 6, 7, 12, 13, 14, 15);
        block[1] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[2], block[6], 0, 1, 2, 3, 8, 9, 10, 11);
        block[6] = __builtin_shufflevector(block[2], block[6], 4, 5, 6, 7, 12, 13, 14, 15);
        block[2] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[3], block[7], 0, 1, 2, 3, 8, 9, 10, 11);
        block[7] = __builtin_shufflevector(block[3], block[7], 4, 5, 6, 7, 12, 13, 14, 15);
        block[3] = low;
    }
}

static void
turn_8(const float *from, ptrdiff_t rows, float factor, float *to)
{
    for (ptrdiff_t q = 0; q < 64; q += 8) {
        const ptrdiff_t done = q + 8 <= rows ? 8 : 0;
        for (ptrdiff_t d = 0; d < done; d += 8) {
            vec block[8];
            for (ptrdiff_t i = 0; i < 8; ++i) {
                block[i] = *(const vec *)(from + (q + i) * 8 + d) * factor;
            }
            transpose(block);
            for (ptrdiff_t i = 0; i < 8; ++i) {
                *(vec *)(to + (d + i) * 64 + q) = block[i];
            }
        }
        for (ptrdiff_t d = done; d < 8; ++d) {
            for (ptrdiff_t i = 0; i < 8; ++i) {
                to[d * 64 + q + i] = q + i < rows ? from[(q + i) * 8 + d] * factor : 0.0f;
            }
        }
    }
}

void k_attention_45da596ace5bac51(void *const *arg, int task, int tasks)
{
    const float *q = arg[0]; /* f32[1,2,70,8] */
    const float *k = arg[1]; /* f32[1,2,70,8] */
    const float *v = arg[2]; /* f32[1,2,70,8] */
    float *y = arg[3]; /* f32[1,2,70,8] */
    float *levels = arg[4]; /* f32[1,2,70,2] */
    char *const own = (char *)arg[5] + task * (ptrdiff_t)20480;
    float *const turned = (float *)(void *)(own + 0);
    float *const s = (float *)(void *)(own + 2048);
    float *const sum = (float *)(void *)(own + 18432);
    const ptrdiff_t first = (ptrdiff_t)4 * task / tasks;
    const ptrdiff_t last = (ptrdiff_t)4 * (task + 1) / tasks;
    for (ptrdiff_t unit = first; unit < last; ++unit) {
        const ptrdiff_t head = unit / 2, q0 = unit % 2 * 64;
        const ptrdiff_t batch = head / 2;
        const ptrdiff_t own = batch * 2 + head % 2 / 1;
        const float *const key = k + ((own) * 70 + 0) * 8;
        const float *const value = v + ((own) * 70 + 0) * 8;
        const ptrdiff_t queries = 70 - q0 < 64 ? 70 - q0 : 64;
        const float *const query = q + ((head) * 70 + q0) * 8;
        turn_8(query, queries, 0.5f, turned);
        float peak[64], total[64], factor[64];
        for (ptrdiff_t i = 0; i < 64; ++i) {
            peak[i] = -3.40282347e+38f;
            total[i] = 0.0f;
        }
        for (ptrdiff_t i = 0; i < 512; ++i) {
            sum[i] = 0.0f;
        }
        for (ptrdiff_t key0 = 0; key0 < 70; key0 += 64) {
            const ptrdiff_t keys = 70 - key0 < 64 ? 70 - key0 : 64;
            score(keys, 8, key + key0 * 8, turned, s, 0);
#pragma clang loop vectorize(assume_safety)
            for (ptrdiff_t i = 0; i < 64; ++i) {
                factor[i] = peak[i];
            }
            for (ptrdiff_t j = 0; j < keys; ++j) {
#pragma clang loop vectorize(assume_safety)
                for (ptrdiff_t i = 0; i < 64; ++i) {
                    const float score = s[j * 64 + i];
                    peak[i] = score > peak[i] ? score : peak[i];
                }
            }
#pragma clang loop vectorize(assume_safety)
            for (ptrdiff_t i = 0; i < 64; ++i) {
                factor[i] = pock_exp(factor[i] - peak[i]);
                total[i] *= factor[i];
            }
            for (ptrdiff_t j = 0; j < keys; ++j) {
#pragma clang loop vectorize(assume_safety)
                for (ptrdiff_t i = 0; i < 64; ++i) {
                    const float weight = pock_exp(s[j * 64 + i] - peak[i]);
                    s[j * 64 + i] = weight;
                    total[i] += weight;
                }
            }
            if (key0) {
                for (ptrdiff_t i = 0; i < queries; ++i) {
#pragma clang loop vectorize(assume_safety)
                    for (ptrdiff_t j = 0; j < 8; ++j) {
                        sum[i * 8 + j] *= factor[i];
                    }
                }
            }
            weigh(queries, keys, s, value + key0 * 8, sum, 1);
        }
        for (ptrdiff_t i = 0; i < queries; ++i) {
            const float all = total[i] < 0.5f ? 0.5f : total[i], share = 1.0f / all;
            float *const level = levels + 2 * (head * 70 + q0 + i);
            level[0] = peak[i];
            level[1] = pock_log(all);
            float *const row = y + ((head) * 70 + q0 + i) * 8;
#pragma clang loop vectorize(assume_safety)
            for (ptrdiff_t j = 0; j < 8; ++j) {
                row[j] = sum[i * 8 + j] * share;
            }
        }
    }
}
