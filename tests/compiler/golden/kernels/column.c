/* raspberry-pi-4, f32, 2 threads */
/* column by column over [40, 24], reducing axes [0] */

#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"

static inline __attribute__((always_inline)) void
reduce_block(void *const *arg, ptrdiff_t outer, ptrdiff_t start, ptrdiff_t width)
{
    const float *in0 = arg[0]; /* f32[40,24] */
    float *out0 = arg[1]; /* f32[1,24] */
    float total0[16];
    for (ptrdiff_t j = 0; j < width; ++j) {
        total0[j] = 0.0f;
    }
    for (ptrdiff_t run = 0; run < 40; run += 256) {
        const ptrdiff_t stop = run + 256 < 40 ? run + 256 : 40;
        float part0[16];
        for (ptrdiff_t j = 0; j < width; ++j) {
            part0[j] = 0.0f;
        }
        for (ptrdiff_t row = run; row < stop; ++row) {
            const float *const in0_row = in0 + row * 24;
#pragma clang loop vectorize(assume_safety)
            for (ptrdiff_t j = 0; j < width; ++j) {
                const float x0 = in0_row[start + j];
                const float v1 = x0 * x0;
                part0[j] = part0[j] + v1;
            }
        }
#pragma clang loop vectorize(assume_safety)
        for (ptrdiff_t j = 0; j < width; ++j) {
            total0[j] = total0[j] + part0[j];
        }
    }
    float *const out0_row = out0 + 0;
#pragma clang loop vectorize(assume_safety)
    for (ptrdiff_t j = 0; j < width; ++j) {
        const float sum0 = total0[j];
        out0_row[start + j] = sum0;
    }
}

void k_column_09670f5f17b6fdd8(void *const *arg, int task, int tasks)
{
    const ptrdiff_t first = (ptrdiff_t)2 * task / tasks;
    const ptrdiff_t last = (ptrdiff_t)2 * (task + 1) / tasks;
    for (ptrdiff_t unit = first; unit < last; ++unit) {
        const ptrdiff_t outer = unit / 2, start = unit % 2 * 16;
        if (start < 16) {
            reduce_block(arg, outer, start, 16);
        }
        else {
            reduce_block(arg, outer, start, 8);
        }
    }
}
