/* The part of cuBLASLt's interface that the runtime calls, as NVIDIA's documentation declares it (cuBLAS 12.9, "Using the
 * cuBLASLt API"); the functions are found when a program starts, where the library is installed. */
#ifndef POCK_CUBLASLT_H
#define POCK_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "cuda.h"

typedef int cublasStatus_t;
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;

typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;

enum { CUBLAS_STATUS_SUCCESS = 0 };
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUBLASLT_MATMUL_DESC_TRANSA = 3, CUBLASLT_MATMUL_DESC_TRANSB = 4 };
enum { CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 5, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES = 5 };

/* X(function, parameters) for each. */
#define POCK_CUBLASLT_FUNCTIONS(X) \
    X(cublasLtCreate, (cublasLtHandle_t *)) \
    X(cublasLtDestroy, (cublasLtHandle_t)) \
    X(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t *, int, int)) \
    X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t)) \
    X(cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc_t, int, const void *, size_t)) \
    X(cublasLtMatrixLayoutCreate, (cublasLtMatrixLayout_t *, int, uint64_t, uint64_t, int64_t)) \
    X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t)) \
    X(cublasLtMatrixLayoutSetAttribute, (cublasLtMatrixLayout_t, int, const void *, size_t)) \
    X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *)) \
    X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t)) \
    X(cublasLtMatmulPreferenceSetAttribute, (cublasLtMatmulPreference_t, int, const void *, size_t)) \
    X(cublasLtMatmulAlgoGetHeuristic, (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, \
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, \
                                       cublasLtMatmulHeuristicResult_t *, int *)) \
    X(cublasLtMatmul, (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, const void *, \
                       cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t, void *, \
                       cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t, CUstream))

#endif
