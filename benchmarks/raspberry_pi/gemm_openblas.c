/* The matrix products of a step by OpenBLAS: one line of standard input a product, "rows columns depth times". */
#include <stdio.h>
#include <stdlib.h>

enum { ROW_MAJOR = 101, AS_IT_IS = 111 };
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);

static float *matrix(int rows, int columns) {
    const size_t size = (size_t)rows * (size_t)columns;
    float *made = malloc(size * sizeof *made);
    if (!made) {
        abort();
    }
    for (size_t i = 0; i < size; ++i) {
        made[i] = 0.5f;
    }
    return made;
}

int main(void) {
    int rows, columns, depth, times;
    while (scanf("%d %d %d %d", &rows, &columns, &depth, &times) == 4) {
        float *a = matrix(rows, depth), *b = matrix(depth, columns), *c = matrix(rows, columns);
        while (times--) {
            cblas_sgemm(ROW_MAJOR, AS_IT_IS, AS_IT_IS, rows, columns, depth, 1.0f, a, depth, b, columns, 0.0f, c,
                        columns);
        }
        free(a);
        free(b);
        free(c);
    }
    return 0;
}
