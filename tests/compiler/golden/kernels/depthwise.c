/* raspberry-pi-4, f32, 2 threads */
/* depthwise conv2d ['f32[1,6,6,8]', 'f32[8,1,3,3]'] {'stride': (1, 1), 'pad': (1, 1, 1, 1), 'dilation': (1, 1), 'groups': 8, 'layout': 'NHWC'} */

#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"

typedef float vec8 __attribute__((vector_size(32), aligned(4), may_alias));

static inline __attribute__((always_inline)) void
finish(void *const *arg, ptrdiff_t b, ptrdiff_t m0, ptrdiff_t n0, const float *tile, ptrdiff_t step, ptrdiff_t rows,
ptrdiff_t cols)
{
    for (ptrdiff_t m = 0; m < rows; ++m) {
        float *const out2_row = (float *)arg[2] + ((m0 + m)) * 8;
#pragma clang loop vectorize(assume_safety) unroll(disable)
        for (ptrdiff_t n = 0; n < cols; ++n) {
            const float product = tile[m * step + n];
            out2_row[(n0 + n)] = product;
        }
    }
}

static void
row_8(const float *image, const float *weights, float *tile, ptrdiff_t row)
{
    const float *line[3], *factor[3];
    ptrdiff_t lines = 0;
    for (ptrdiff_t r = 0; r < 3; ++r) {
        const ptrdiff_t from = row * 1 + r * 1 - 1;
        if (from < 0 || from >= 6)
            continue;
        line[lines] = image + from * 48;
        factor[lines++] = weights + r * 24;
    }
    /* columns 0 + 1 t */ {
        for (ptrdiff_t t = 1; t < 5; t += 4) {
            vec8 sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
            for (ptrdiff_t r = 0; r < lines; ++r) {
                const float *const at = line[r] + t * 8;
                const vec8 w0 = *(const vec8 *)(factor[r] + 0);
                const vec8 w1 = *(const vec8 *)(factor[r] + 8);
                const vec8 w2 = *(const vec8 *)(factor[r] + 16);
                const vec8 x_1 = *(const vec8 *)(at + -8);
                sum0 += x_1 * w0;
                const vec8 x0 = *(const vec8 *)(at + 0);
                sum0 += x0 * w1;
                sum1 += x0 * w0;
                const vec8 x1 = *(const vec8 *)(at + 8);
                sum0 += x1 * w2;
                sum1 += x1 * w1;
                sum2 += x1 * w0;
                const vec8 x2 = *(const vec8 *)(at + 16);
                sum1 += x2 * w2;
                sum2 += x2 * w1;
                sum3 += x2 * w0;
                const vec8 x3 = *(const vec8 *)(at + 24);
                sum2 += x3 * w2;
                sum3 += x3 * w1;
                const vec8 x4 = *(const vec8 *)(at + 32);
                sum3 += x4 * w2;
            }
            *(vec8 *)(tile + (t + 0) * 8) = sum0;
            *(vec8 *)(tile + (t + 1) * 8) = sum1;
            *(vec8 *)(tile + (t + 2) * 8) = sum2;
            *(vec8 *)(tile + (t + 3) * 8) = sum3;
        }
        for (ptrdiff_t t = 0; t < 1; ++t) {
            vec8 sum = {0};
            const ptrdiff_t x0 = t * 1 + -1;
            if (x0 >= 0 && x0 < 6) {
                for (ptrdiff_t r = 0; r < lines; ++r) {
                    const vec8 read = *(const vec8 *)(line[r] + x0 * 8);
                    sum += read * *(const vec8 *)(factor[r] + 0);
                }
            }
            const ptrdiff_t x1 = t * 1 + 0;
            if (x1 >= 0 && x1 < 6) {
                for (ptrdiff_t r = 0; r < lines; ++r) {
                    const vec8 read = *(const vec8 *)(line[r] + x1 * 8);
                    sum += read * *(const vec8 *)(factor[r] + 8);
                }
            }
            const ptrdiff_t x2 = t * 1 + 1;
            if (x2 >= 0 && x2 < 6) {
                for (ptrdiff_t r = 0; r < lines; ++r) {
                    const vec8 read = *(const vec8 *)(line[r] + x2 * 8);
                    sum += read * *(const vec8 *)(factor[r] + 16);
                }
            }
            *(vec8 *)(tile + (t) * 8) = sum;
        }
        for (ptrdiff_t t = 5; t < 6; ++t) {
            vec8 sum = {0};
            const ptrdiff_t x0 = t * 1 + -1;
            if (x0 >= 0 && x0 < 6) {
                for (ptrdiff_t r = 0; r < lines; ++r) {
                    const vec8 read = *(const vec8 *)(line[r] + x0 * 8);
                    sum += read * *(const vec8 *)(factor[r] + 0);
                }
            }
            const ptrdiff_t x1 = t * 1 + 0;
            if (x1 >= 0 && x1 < 6) {
                for (ptrdiff_t r = 0; r < lines; ++r) {
                    const vec8 read = *(const vec8 *)(line[r] + x1 * 8);
                    sum += read * *(const vec8 *)(factor[r] + 8);
                }
            }
            const ptrdiff_t x2 = t * 1 + 1;
            if (x2 >= 0 && x2 < 6) {
                for (ptrdiff_t r = 0; r < lines; ++r) {
                    const vec8 read = *(const vec8 *)(line[r] + x2 * 8);
                    sum += read * *(const vec8 *)(factor[r] + 16);
                }
            }
            *(vec8 *)(tile + (t) * 8) = sum;
        }
    }
}

void k_depthwise_conv2d_ce697921d4ba1904(void *const *arg, int task, int tasks)
{
    const float *const source = arg[0], *const given = arg[1];
    float *const weights = (float *)(void *)((char *)arg[3] + task * (ptrdiff_t)512);
    float *const tile = weights + 80;
    /* weights as [tap][channel of the group][channel] */
    for (ptrdiff_t c = 0; c < 8; ++c) {
        for (ptrdiff_t t = 0; t < 9; ++t) {
            weights[t * 8 + c] = given[c * 9 + t];
        }
    }
    const ptrdiff_t first = (ptrdiff_t)6 * task / tasks;
    const ptrdiff_t last = (ptrdiff_t)6 * (task + 1) / tasks;
    for (ptrdiff_t unit = first; unit < last; ++unit) {
        const ptrdiff_t row = unit % 6;
        const float *const image = source + unit / 6 * 288;
        for (ptrdiff_t c = 0; c < 8; c += 8) {
            row_8(image + c, weights + c, tile, row);
            finish(arg, 0, unit * 6, c, tile, 8, 6, 8);
        }
    }
}
