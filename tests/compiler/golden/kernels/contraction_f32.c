/* raspberry-pi-4, f32, 2 threads */
/* matmul(f32[6,12] , f32[12,20]) {'trans_a': False, 'trans_b': False}: b, m, n, k = (1, 6, 20, 12), Schedule(swap=False, rows=6, vectors=3, lanes=4, depth=12, block=6, split='n', pack_left=False, right='direct', format='f32', strips=1) */

#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"

typedef float vec __attribute__((vector_size(16), aligned(4), may_alias));

static inline __attribute__((always_inline)) void
finish(void *const *arg, ptrdiff_t b, ptrdiff_t m0, ptrdiff_t n0, const float *tile, ptrdiff_t step, ptrdiff_t rows,
ptrdiff_t cols)
{
    for (ptrdiff_t m = 0; m < rows; ++m) {
        const float *const x2_row = (const float *)arg[2] + 0;
        uint8_t *const out3_row = (uint8_t *)arg[3] + ((m0 + m)) * 20;
        float *const out4_row = (float *)arg[4] + ((m0 + m)) * 20;
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
tile_6x3(ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    vec c0_0 = {0}, c0_1 = {0}, c0_2 = {0};
    vec c1_0 = {0}, c1_1 = {0}, c1_2 = {0};
    vec c2_0 = {0}, c2_1 = {0}, c2_2 = {0};
    vec c3_0 = {0}, c3_1 = {0}, c3_2 = {0};
    vec c4_0 = {0}, c4_1 = {0}, c4_2 = {0};
    vec c5_0 = {0}, c5_1 = {0}, c5_2 = {0};
    for (ptrdiff_t k = 0; k < depth; k += 1) {
        const vec b0 = *(const vec *)(b + 0), b1 = *(const vec *)(b + 4), b2 = *(const vec *)(b + 8);
        const float a0 = a[0]; c0_0 += a0 * b0; c0_1 += a0 * b1; c0_2 += a0 * b2;
        const float a1 = a[12]; c1_0 += a1 * b0; c1_1 += a1 * b1; c1_2 += a1 * b2;
        const float a2 = a[24]; c2_0 += a2 * b0; c2_1 += a2 * b1; c2_2 += a2 * b2;
        const float a3 = a[36]; c3_0 += a3 * b0; c3_1 += a3 * b1; c3_2 += a3 * b2;
        const float a4 = a[48]; c4_0 += a4 * b0; c4_1 += a4 * b1; c4_2 += a4 * b2;
        const float a5 = a[60]; c5_0 += a5 * b0; c5_1 += a5 * b1; c5_2 += a5 * b2;
        a += 1;
        b += 20;
    }
    if (more) {
        c0_0 += *(vec *)(c + 0); c0_1 += *(vec *)(c + 4); c0_2 += *(vec *)(c + 8);
        c1_0 += *(vec *)(c + 12); c1_1 += *(vec *)(c + 16); c1_2 += *(vec *)(c + 20);
        c2_0 += *(vec *)(c + 24); c2_1 += *(vec *)(c + 28); c2_2 += *(vec *)(c + 32);
        c3_0 += *(vec *)(c + 36); c3_1 += *(vec *)(c + 40); c3_2 += *(vec *)(c + 44);
        c4_0 += *(vec *)(c + 48); c4_1 += *(vec *)(c + 52); c4_2 += *(vec *)(c + 56);
        c5_0 += *(vec *)(c + 60); c5_1 += *(vec *)(c + 64); c5_2 += *(vec *)(c + 68);
    }
    *(vec *)(c + 0) = c0_0; *(vec *)(c + 4) = c0_1; *(vec *)(c + 8) = c0_2;
    *(vec *)(c + 12) = c1_0; *(vec *)(c + 16) = c1_1; *(vec *)(c + 20) = c1_2;
    *(vec *)(c + 24) = c2_0; *(vec *)(c + 28) = c2_1; *(vec *)(c + 32) = c2_2;
    *(vec *)(c + 36) = c3_0; *(vec *)(c + 40) = c3_1; *(vec *)(c + 44) = c3_2;
    *(vec *)(c + 48) = c4_0; *(vec *)(c + 52) = c4_1; *(vec *)(c + 56) = c4_2;
    *(vec *)(c + 60) = c5_0; *(vec *)(c + 64) = c5_1; *(vec *)(c + 68) = c5_2;
}

static __attribute__((noinline)) void
tile_6x2(ptrdiff_t depth, const float *a, const float *b, float *c, int more)
{
    vec c0_0 = {0}, c0_1 = {0};
    vec c1_0 = {0}, c1_1 = {0};
    vec c2_0 = {0}, c2_1 = {0};
    vec c3_0 = {0}, c3_1 = {0};
    vec c4_0 = {0}, c4_1 = {0};
    vec c5_0 = {0}, c5_1 = {0};
    for (ptrdiff_t k = 0; k < depth; k += 1) {
        const vec b0 = *(const vec *)(b + 0), b1 = *(const vec *)(b + 4);
        const float a0 = a[0]; c0_0 += a0 * b0; c0_1 += a0 * b1;
        const float a1 = a[12]; c1_0 += a1 * b0; c1_1 += a1 * b1;
        const float a2 = a[24]; c2_0 += a2 * b0; c2_1 += a2 * b1;
        const float a3 = a[36]; c3_0 += a3 * b0; c3_1 += a3 * b1;
        const float a4 = a[48]; c4_0 += a4 * b0; c4_1 += a4 * b1;
        const float a5 = a[60]; c5_0 += a5 * b0; c5_1 += a5 * b1;
        a += 1;
        b += 20;
    }
    if (more) {
        c0_0 += *(vec *)(c + 0); c0_1 += *(vec *)(c + 4);
        c1_0 += *(vec *)(c + 8); c1_1 += *(vec *)(c + 12);
        c2_0 += *(vec *)(c + 16); c2_1 += *(vec *)(c + 20);
        c3_0 += *(vec *)(c + 24); c3_1 += *(vec *)(c + 28);
        c4_0 += *(vec *)(c + 32); c4_1 += *(vec *)(c + 36);
        c5_0 += *(vec *)(c + 40); c5_1 += *(vec *)(c + 44);
    }
    *(vec *)(c + 0) = c0_0; *(vec *)(c + 4) = c0_1;
    *(vec *)(c + 8) = c1_0; *(vec *)(c + 12) = c1_1;
    *(vec *)(c + 16) = c2_0; *(vec *)(c + 20) = c2_1;
    *(vec *)(c + 24) = c3_0; *(vec *)(c + 28) = c3_1;
    *(vec *)(c + 32) = c4_0; *(vec *)(c + 36) = c4_1;
    *(vec *)(c + 40) = c5_0; *(vec *)(c + 44) = c5_1;
}

static void
panel_3_12(void *const *arg, ptrdiff_t batch, const float *a, const float *b, float *sums,
    ptrdiff_t m0, ptrdiff_t m1, ptrdiff_t n0, ptrdiff_t depth, int more, int finished)
{
    float tile[72] __attribute__((aligned(64)));
    for (ptrdiff_t m = m0; m < m1; m += 6) {
        const ptrdiff_t rows = m1 - m < 6 ? m1 - m : 6;
        const float *const a_rows = a + (m - m0) * 12;
        float *const c = tile;
        if (rows == 6)
            tile_6x3(depth, a_rows, b, c, more);
        if (finished)
            finish(arg, batch, m, n0, c, 12, rows, 12);
    }
}

static void
panel_2_8(void *const *arg, ptrdiff_t batch, const float *a, const float *b, float *sums,
    ptrdiff_t m0, ptrdiff_t m1, ptrdiff_t n0, ptrdiff_t depth, int more, int finished)
{
    float tile[48] __attribute__((aligned(64)));
    for (ptrdiff_t m = m0; m < m1; m += 6) {
        const ptrdiff_t rows = m1 - m < 6 ? m1 - m : 6;
        const float *const a_rows = a + (m - m0) * 12;
        float *const c = tile;
        if (rows == 6)
            tile_6x2(depth, a_rows, b, c, more);
        if (finished)
            finish(arg, batch, m, n0, c, 8, rows, 8);
    }
}

void k_matmul_47f3207c62dca943(void *const *arg, int task, int tasks)
{
    const float *const left = arg[0];
    const float *const right = arg[1];
    const ptrdiff_t first = (ptrdiff_t)2 * task / tasks;
    const ptrdiff_t last = (ptrdiff_t)2 * (task + 1) / tasks;
    const ptrdiff_t b_first = 0, b_last = 1;
    const ptrdiff_t m_first = 0, m_last = 6;
    const ptrdiff_t n_first = first, n_last = last;
    const ptrdiff_t k_first = 0, k_last = 1;
    for (ptrdiff_t batch = b_first; batch < b_last; ++batch) {
        const float *const a = left + 0;
        const float *const b = right + 0;
        for (ptrdiff_t m0 = m_first; m0 < m_last; m0 += 6) {
            const ptrdiff_t m1 = m_last - m0 < 6 ? m_last : m0 + 6;
            for (ptrdiff_t part = k_first; part < k_last; ++part) {
                const ptrdiff_t k0 = part * 12, depth = 12 - k0 < 12 ? 12 - k0 : 12;
                const float *const a_block = a + m0 * 12 + k0 * 1;
                for (ptrdiff_t panel = n_first; panel < n_last; ++panel) {
                    const ptrdiff_t n0 = panel * 12;
                    if (panel < 1)
                        panel_3_12(arg, batch, a_block, b + k0 * 20 + n0, 0, m0, m1, n0, depth, part > k_first, part == 0);
                    if (panel >= 1)
                        panel_2_8(arg, batch, a_block, b + k0 * 20 + n0, 0, m0, m1, n0, depth, part > k_first, part == 0);
                }
            }
        }
    }
}
