/* cuBLASLt without a GPU: products in plain C, which begin when the driver's stream comes to them, and use all of the memory
 * that they may. FAKE_LIBRARY in the environment: `refuses` makes none, `fails` says that it makes them and then does not.
 * FAKE_PRODUCTS names a file that gets a line for each product that is asked for. */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "cublaslt.h"

#define NOT_SUPPORTED 15
#define INVALID 7

struct cublasLtContext {
    CUresult (*call)(CUstream stream, void (*run)(void *const *arg, int task, int tasks), void *argument);
};
struct cublasLtMatmulDescOpaque {
    int compute, scale, transposed[2];
};
struct cublasLtMatrixLayoutOpaque {
    int type;
    uint64_t rows, columns;
    int64_t step, between;
    int32_t count;
};
struct cublasLtMatmulPreferenceOpaque {
    size_t bytes;
    uint32_t alignment[4];
};

/* A product that is asked for. */
typedef struct {
    struct cublasLtMatmulDescOpaque what;
    struct cublasLtMatrixLayoutOpaque a, b, d;
    const char *left, *right;
    char *result;
    void *scratch;
    size_t bytes;
} product;

static int is(const char *trouble) {
    const char *has = getenv("FAKE_LIBRARY");
    return has && strcmp(has, trouble) == 0;
}

static size_t size_of(int type) {
    return type == CUDA_R_32F ? 4 : 2;
}

static float half(uint16_t bits) {
    int exponent = (bits >> 10) & 31;
    float fraction = (float)(bits & 1023);
    float size = exponent ? ldexpf(1 + fraction / 1024, exponent - 15) : ldexpf(fraction, -24);
    return bits >> 15 ? -size : size;
}

static float number(const char *at, int type, int tf32) {
    uint32_t bits = 0;
    float value;
    if (type == CUDA_R_16F) {
        uint16_t stored;
        memcpy(&stored, at, 2);
        return half(stored);
    }
    if (type == CUDA_R_16BF) {
        memcpy((char *)&bits + 2, at, 2);
    } else {
        memcpy(&bits, at, 4);
        bits = tf32 ? (bits + 0x1000u) & ~0x1fffu : bits;
    }
    memcpy(&value, &bits, 4);
    return value;
}

static void store(char *at, int type, float value) {
    if (type == CUDA_R_32F) {
        memcpy(at, &value, 4);
    } else if (type == CUDA_R_16BF) {
        uint32_t bits;
        memcpy(&bits, &value, 4);
        bits += 0x7fffu + (bits >> 16 & 1);
        memcpy(at, (char *)&bits + 2, 2);
    } else {
        _Float16 rounded = (_Float16)value;
        memcpy(at, &rounded, 2);
    }
}

/* Element (row, column) of an operand, transposed or not; matrices lie by columns. */
static float element(const product *of, int which, int64_t matrix, uint64_t row, uint64_t column) {
    const struct cublasLtMatrixLayoutOpaque *layout = which ? &of->b : &of->a;
    uint64_t down = of->what.transposed[which] ? column : row, along = of->what.transposed[which] ? row : column;
    int64_t place = matrix * layout->between + (int64_t)along * layout->step + (int64_t)down;
    const char *from = (which ? of->right : of->left) + place * (int64_t)size_of(layout->type);
    return number(from, layout->type, of->what.compute == CUBLAS_COMPUTE_32F_FAST_TF32);
}

static void multiply(void *const *arg, int task, int tasks) {
    const product *of = arg[0];
    uint64_t terms = of->what.transposed[0] ? of->a.rows : of->a.columns;
    (void)task;
    (void)tasks;
    memset(of->scratch, 0x5a, of->bytes);
    for (int64_t matrix = 0; matrix < of->d.count; matrix++) {
        for (uint64_t column = 0; column < of->d.columns; column++) {
            for (uint64_t row = 0; row < of->d.rows; row++) {
                float sum = 0;
                for (uint64_t k = 0; k < terms; k++) {
                    sum += element(of, 0, matrix, row, k) * element(of, 1, matrix, k, column);
                }
                int64_t place = matrix * of->d.between + (int64_t)column * of->d.step + (int64_t)row;
                store(of->result + place * (int64_t)size_of(of->d.type), of->d.type, sum);
            }
        }
    }
    memset(of->scratch, 0x5b, of->bytes);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *made) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    *made = calloc(1, sizeof **made);
    if (!driver || !*made) {
        return 1;
    }
    *(void **)(&(*made)->call) = dlsym(driver, "fake_call");
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t made) {
    free(made);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, int compute, int scale) {
    *made = calloc(1, sizeof **made);
    (*made)->compute = compute;
    (*made)->scale = scale;
    return (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32) || scale != CUDA_R_32F ? INVALID : 0;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t made) {
    free(made);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of, int what, const void *value, size_t bytes) {
    if ((what != CUBLASLT_MATMUL_DESC_TRANSA && what != CUBLASLT_MATMUL_DESC_TRANSB) || bytes != sizeof(int)) {
        return INVALID;
    }
    memcpy(&of->transposed[what - CUBLASLT_MATMUL_DESC_TRANSA], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, int type, uint64_t rows, uint64_t columns, int64_t step) {
    *made = calloc(1, sizeof **made);
    **made = (struct cublasLtMatrixLayoutOpaque){type, rows, columns, step, 0, 1};
    return step < (int64_t)rows ? INVALID : CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t made) {
    free(made);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of, int what, const void *value, size_t bytes) {
    int counts = what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if ((!counts && what != CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) || bytes != (counts ? 4u : 8u)) {
        return INVALID;
    }
    memcpy(counts ? (void *)&of->count : (void *)&of->between, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made) {
    *made = calloc(1, sizeof **made);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t made) {
    free(made);
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of, int what, const void *value, size_t bytes) {
    int which = what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof of->bytes) {
        memcpy(&of->bytes, value, bytes);
    } else if (which >= 0 && which < 4 && bytes == sizeof of->alignment[0]) {
        memcpy(&of->alignment[which], value, bytes);
    } else {
        return INVALID;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* What an algorithm of this library is: the most memory that it may use, and how operands have to lie. */
typedef struct {
    size_t bytes;
    uint32_t alignment[4];
} algorithm;

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t what, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int most,
                                              cublasLtMatmulHeuristicResult_t *found, int *count) {
    uint64_t rows = what->transposed[0] ? a->columns : a->rows, columns = what->transposed[1] ? b->rows : b->columns;
    uint64_t left = what->transposed[0] ? a->rows : a->columns, right = what->transposed[1] ? b->columns : b->rows;
    int fit = handle && most > 0 && rows == d->rows && columns == d->columns && left == right && a->type == b->type &&
              (d->type == CUDA_R_32F || d->type == a->type) && a->count == d->count && b->count == d->count && c == d;
    algorithm chosen = {wanted->bytes, {0}};
    memcpy(chosen.alignment, wanted->alignment, sizeof chosen.alignment);
    memset(found, 0, sizeof *found);
    memcpy(&found->algo, &chosen, sizeof chosen);
    found->workspaceSize = wanted->bytes;
    *count = fit && !is("refuses");
    return *count ? CUBLAS_STATUS_SUCCESS : NOT_SUPPORTED;
}

static void log_one(const product *of) {
    const char *path = getenv("FAKE_PRODUCTS");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%d %d %d %d\n", of->a.type, of->d.type, of->d.count, of->what.compute);
        fclose(file);
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t what, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b, cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *scratch, size_t bytes, CUstream stream) {
    algorithm chosen;
    memcpy(&chosen, algo, sizeof chosen);
    const void *at[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        if ((uintptr_t)at[i] % chosen.alignment[i]) {
            return INVALID;
        }
    }
    if ((uintptr_t)scratch % 16) {
        return INVALID;
    }
    if (*(const float *)alpha != 1 || *(const float *)beta != 0 || c != d || lc != ld || bytes < chosen.bytes || is("fails")) {
        return NOT_SUPPORTED;
    }
    product *asked = calloc(1, sizeof *asked);
    *asked = (product){*what, *la, *lb, *ld, a, b, d, scratch, bytes};
    log_one(asked);
    return handle->call(stream, multiply, asked) ? INVALID : CUBLAS_STATUS_SUCCESS;
}
