/* x86-64-v3, f32, 2 threads */
/* row by row over [4] x [24] */

#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"

void k_row_7d5a2c510254b82e(void *const *arg, int task, int tasks)
{
    const float *in0 = arg[0]; /* f32[4,24] */
    const float *in1 = arg[1]; /* f32[24] */
    float *out0 = arg[2]; /* f32[4,24] */
    const ptrdiff_t first = (ptrdiff_t)4 * task / tasks;
    const ptrdiff_t last = (ptrdiff_t)4 * (task + 1) / tasks;
    for (ptrdiff_t row = first; row < last; ++row) {
        const float *const in0_row = in0 + row * 24;
        const float *const in1_row = in1 + 0;
        float *const out0_row = out0 + row * 24;
        float acc0_0[32];
        for (ptrdiff_t lane = 0; lane < 32; ++lane) {
            acc0_0[lane] = 0.0f;
        }
#pragma clang loop vectorize(assume_safety)
        for (ptrdiff_t lane = 0; lane < 24; ++lane) {
            const ptrdiff_t j = 0 + lane;
            const float x0 = in0_row[j];
            const float v4 = x0 * x0;
            acc0_0[lane] = acc0_0[lane] + v4;
        }
        for (ptrdiff_t width = 16; width > 0; width /= 2) {
            for (ptrdiff_t lane = 0; lane < width; ++lane) {
                acc0_0[lane] = acc0_0[lane] + acc0_0[lane + width];
            }
        }
        const float sum0_0 = acc0_0[0];
        const float v3 = sum0_0 * 0.041666668f;
        const float v4 = v3 + 1e-05f;
        const float v5 = 1.0f / __builtin_sqrtf(v4);
#pragma clang loop vectorize(assume_safety)
        for (ptrdiff_t lane = 0; lane < 24; ++lane) {
            const ptrdiff_t j = lane;
            const float x0 = in0_row[j];
            const float x1 = in1_row[j];
            const float v8 = x0 * v5;
            const float v9 = v8 * x1;
            out0_row[j] = v9;
        }
    }
}
