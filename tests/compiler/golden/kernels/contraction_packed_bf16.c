/* tiles, bf16, 2 threads */
/* matmul(f32[32,64] , f32[64,32]) {'trans_a': False, 'trans_b': False}: b, m, n, k = (1, 32, 32, 64), __bf16 (amx), Schedule(swap=False, rows=32, vectors=2, lanes=16, depth=64, block=32, split='b', pack_left=True, right='private', format='bf16', strips=1) */

#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"

typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
typedef __bf16 half;
typedef half halves __attribute__((vector_size(32), aligned(2), may_alias));
static inline __attribute__((always_inline, unused)) void
narrow(const float *restrict from, half *restrict to, ptrdiff_t count)
{
    ptrdiff_t i = 0;
    for (; i + 16 <= count; i += 16)
        *(halves *)(to + i) = __builtin_convertvector(*(const vec *)(from + i), halves);
    for (; i < count; ++i)
        to[i] = (half)from[i];
}
typedef half pairs __attribute__((vector_size(64), aligned(2), may_alias));
static inline __attribute__((always_inline, unused)) void
split(const float *restrict from, half *restrict to, ptrdiff_t count, int parts, ptrdiff_t part)
{
    for (ptrdiff_t i = 0; i < count; i += 16) {
        vec rest = *(const vec *)(from + i);
        for (int p = 0; p < parts; ++p) {
            const halves found = __builtin_convertvector(rest, halves);
            *(halves *)(to + p * part + i) = found;
            rest -= __builtin_convertvector(found, vec);
        }
    }
}
static inline __attribute__((always_inline, unused)) void
split_pairs(const float *restrict first, const float *restrict second, half *restrict to, int parts, ptrdiff_t part)
{
    vec a = *(const vec *)first, b = *(const vec *)second;
    for (int p = 0; p < parts; ++p) {
        const halves x = __builtin_convertvector(a, halves), y = __builtin_convertvector(b, halves);
        *(pairs *)(to + p * part) = __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        a -= __builtin_convertvector(x, vec);
        b -= __builtin_convertvector(y, vec);
    }
}
static inline __attribute__((always_inline, unused)) void
transpose(vec *block)
{
    {
        const vec low = __builtin_shufflevector(block[0], block[1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        block[1] = __builtin_shufflevector(block[0], block[1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[2], block[3], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        block[3] = __builtin_shufflevector(block[2], block[3], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        block[2] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[4], block[5], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        block[5] = __builtin_shufflevector(block[4], block[5], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        block[4] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[6], block[7], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        block[7] = __builtin_shufflevector(block[6], block[7], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        block[6] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[8], block[9], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        block[9] = __builtin_shufflevector(block[8], block[9], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        block[8] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[10], block[11], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        block[11] = __builtin_shufflevector(block[10], block[11], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        block[10] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[12], block[13], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        block[13] = __builtin_shufflevector(block[12], block[13], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        block[12] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[14], block[15], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
        block[15] = __builtin_shufflevector(block[14], block[15], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
        block[14] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[0], block[2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        block[2] = __builtin_shufflevector(block[0], block[2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[1], block[3], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        block[3] = __builtin_shufflevector(block[1], block[3], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        block[1] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[4], block[6], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        block[6] = __builtin_shufflevector(block[4], block[6], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        block[4] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[5], block[7], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        block[7] = __builtin_shufflevector(block[5], block[7], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        block[5] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[8], block[10], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        block[10] = __builtin_shufflevector(block[8], block[10], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        block[8] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[9], block[11], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        block[11] = __builtin_shufflevector(block[9], block[11], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        block[9] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[12], block[14], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        block[14] = __builtin_shufflevector(block[12], block[14], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        block[12] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[13], block[15], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
        block[15] = __builtin_shufflevector(block[13], block[15], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        block[13] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[0], block[4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        block[4] = __builtin_shufflevector(block[0], block[4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[1], block[5], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        block[5] = __builtin_shufflevector(block[1], block[5], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        block[1] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[2], block[6], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        block[6] = __builtin_shufflevector(block[2], block[6], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        block[2] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[3], block[7], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        block[7] = __builtin_shufflevector(block[3], block[7], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        block[3] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[8], block[12], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        block[12] = __builtin_shufflevector(block[8], block[12], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        block[8] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[9], block[13], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        block[13] = __builtin_shufflevector(block[9], block[13], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        block[9] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[10], block[14], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        block[14] = __builtin_shufflevector(block[10], block[14], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        block[10] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[11], block[15], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
        block[15] = __builtin_shufflevector(block[11], block[15], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        block[11] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[0], block[8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        block[8] = __builtin_shufflevector(block[0], block[8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        block[0] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[1], block[9], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        block[9] = __builtin_shufflevector(block[1], block[9], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        block[1] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[2], block[10], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        block[10] = __builtin_shufflevector(block[2], block[10], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        block[2] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[3], block[11], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        block[11] = __builtin_shufflevector(block[3], block[11], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        block[3] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[4], block[12], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        block[12] = __builtin_shufflevector(block[4], block[12], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        block[4] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[5], block[13], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        block[13] = __builtin_shufflevector(block[5], block[13], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        block[5] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[6], block[14], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        block[14] = __builtin_shufflevector(block[6], block[14], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        block[6] = low;
    }
    {
        const vec low = __builtin_shufflevector(block[7], block[15], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        block[15] = __builtin_shufflevector(block[7], block[15], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
        block[7] = low;
    }
}

static inline __attribute__((always_inline)) void
finish(void *const *arg, ptrdiff_t b, ptrdiff_t m0, ptrdiff_t n0, const float *tile, ptrdiff_t step, ptrdiff_t rows,
ptrdiff_t cols)
{
    for (ptrdiff_t m = 0; m < rows; ++m) {
        const float *const x2_row = (const float *)arg[2] + 0;
        uint8_t *const out3_row = (uint8_t *)arg[3] + ((m0 + m)) * 32;
        float *const out4_row = (float *)arg[4] + ((m0 + m)) * 32;
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
pack_rows_runs(const float *src, half *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)
{
    for (ptrdiff_t x = x0; x < x1; ++x) {
        const ptrdiff_t m_ = x;
        const float *const line = src + m_ * 64;
        half *out = dst + (x - x0) * 96;
        for (ptrdiff_t k = k0; k < k1;) {
            const ptrdiff_t at = k % 64, left = 64 - at;
            const ptrdiff_t count = left < k1 - k ? left : k1 - k;
            const float *const from = line + at;
            narrow(from, out, count);
            out += count * 1;
            k += count;
        }
    }
}

static __attribute__((noinline)) void
pack_rows(const float *src, half *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)
{
    const ptrdiff_t depth = k1 - k0, filled = (depth + 31) / 32 * 32;
    pack_rows_runs(src, dst, x0, x1, k0, k1);
    for (ptrdiff_t x = 0; x < x1 - x0; ++x) {
        for (ptrdiff_t k = depth; k < filled; ++k) {
            dst[x * 96 + k] = 0;
        }
    }
}

static __attribute__((noinline)) void
pack_columns0_chunk(const float *src, float *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)
{
    for (ptrdiff_t k = k0; k < k1; ++k) {
        const float *const from = src + k * 32 + x0;
        float *const to = dst + (k - k0) * 32;
#pragma clang loop vectorize(assume_safety)
        for (ptrdiff_t i = 0; i < 32; ++i) {
            to[i] = from[i];
        }
    }
}

static __attribute__((noinline)) void
pack_columns0(const float *src, half *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)
{
    for (ptrdiff_t k = k0; k < k1; k += 64) {
        float chunk[2048] __attribute__((aligned(64)));
        const ptrdiff_t depth = k1 - k < 64 ? k1 - k : 64;
        if (depth < 64 || x1 - x0 < 32)
            __builtin_memset(chunk, 0, sizeof chunk);
        pack_columns0_chunk(src, chunk, x0, x1, k, k + depth);
        half *const to = dst + (k - k0) * 32;
        const ptrdiff_t filled = (depth + 31) / 32 * 32;
        for (ptrdiff_t i = 0; i < filled; i += 2) {
            for (ptrdiff_t x = 0; x < 32; x += 16) {
                split_pairs(chunk + i * 32 + x, chunk + i * 32 + x + 32, to + i * 32 + 2 * x, 1, 2048);
            }
        }
    }
}

static void
pack_panel(const float *src, __bf16 *dst, ptrdiff_t panel, ptrdiff_t k0, ptrdiff_t k1)
{
    const ptrdiff_t n0 = panel * 32;
    if (panel < 1) {
        pack_columns0(src, dst, n0, n0 + 32, k0, k1);
    }
}

/* Eight tile registers of 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shape = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
static __attribute__((noinline)) void
tile_32x2(ptrdiff_t depth, const __bf16 *a, const __bf16 *b, float *c, int more)
{
    if (more) {
        __builtin_ia32_tileloadd64(0, c + 0, 128);
        __builtin_ia32_tileloadd64(1, c + 16, 128);
        __builtin_ia32_tileloadd64(2, c + 512, 128);
        __builtin_ia32_tileloadd64(3, c + 528, 128);
    } else {
        __builtin_ia32_tilezero(0);
        __builtin_ia32_tilezero(1);
        __builtin_ia32_tilezero(2);
        __builtin_ia32_tilezero(3);
    }
    for (ptrdiff_t k = 0; k < depth; k += 32) {
        __builtin_ia32_tileloadd64(4, b + 0, 128);
        __builtin_ia32_tileloadd64(5, b + 32, 128);
        __builtin_ia32_tileloadd64(6, a + 0, 192);
        __builtin_ia32_tdpbf16ps(0, 6, 4);
        __builtin_ia32_tdpbf16ps(1, 6, 5);
        __builtin_ia32_tileloadd64(7, a + 1536, 192);
        __builtin_ia32_tdpbf16ps(2, 7, 4);
        __builtin_ia32_tdpbf16ps(3, 7, 5);
        a += 32;
        b += 1024;
    }
    __builtin_ia32_tilestored64(0, c + 0, 128);
    __builtin_ia32_tilestored64(1, c + 16, 128);
    __builtin_ia32_tilestored64(2, c + 512, 128);
    __builtin_ia32_tilestored64(3, c + 528, 128);
}

static void
panel_2_32(void *const *arg, ptrdiff_t batch, const __bf16 *a, const __bf16 *b, float *sums,
    ptrdiff_t m0, ptrdiff_t m1, ptrdiff_t n0, ptrdiff_t depth, int more, int finished)
{
    float tile[1024] __attribute__((aligned(64)));
    for (ptrdiff_t m = m0; m < m1; m += 32) {
        const ptrdiff_t rows = m1 - m < 32 ? m1 - m : 32;
        const __bf16 *const a_rows = a + (m - m0) * 96;
        float *const c = tile;
        if (rows == 32)
            tile_32x2(depth, a_rows, b, c, more);
        if (finished)
            finish(arg, batch, m, n0, c, 32, rows, 32);
    }
}

void k_matmul_33c8de2715a0471a(void *const *arg, int task, int tasks)
{
    const float *const left = arg[0];
    const float *const right = arg[1];
    char *const workspace = arg[5];
    char *const own = workspace + 0 + task * (ptrdiff_t)10240;
    __bf16 *const rows = (__bf16 *)(void *)own;
    __bf16 *const panels = (__bf16 *)(void *)(own + 6144);
    const ptrdiff_t first = (ptrdiff_t)1 * task / tasks;
    const ptrdiff_t last = (ptrdiff_t)1 * (task + 1) / tasks;
    __builtin_ia32_tile_loadconfig(&tile_shape);
    const ptrdiff_t b_first = first, b_last = last;
    const ptrdiff_t m_first = 0, m_last = 32;
    const ptrdiff_t n_first = 0, n_last = 1;
    const ptrdiff_t k_first = 0, k_last = 1;
    for (ptrdiff_t batch = b_first; batch < b_last; ++batch) {
        const float *const a = left + 0;
        const float *const b = right + 0;
        for (ptrdiff_t panel = n_first; panel < n_last; ++panel) {
            pack_panel(b, panels + panel * 2048, panel, 0, 64);
        }
        for (ptrdiff_t m0 = m_first; m0 < m_last; m0 += 32) {
            const ptrdiff_t m1 = m_last - m0 < 32 ? m_last : m0 + 32;
            for (ptrdiff_t part = k_first; part < k_last; ++part) {
                const ptrdiff_t k0 = part * 64, depth = 64 - k0 < 64 ? 64 - k0 : 64;
                pack_rows(a, rows, m0, m1, k0, k0 + depth);
                const __bf16 *const a_block = rows;
                for (ptrdiff_t panel = n_first; panel < n_last; ++panel) {
                    const ptrdiff_t n0 = panel * 32;
                    if (panel < 1)
                        panel_2_32(arg, batch, a_block, panels + panel * 2048 + k0 * 32, 0, m0, m1, n0, depth, part > k_first, part == 0);
                }
            }
        }
    }
    __builtin_ia32_tilerelease();
}
