/* Products that cuBLASLt makes in the place of kernels, where it is installed. */
#include "platform.h"

#include "gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_ALIGNMENT 256 /* that the library asks for */

/* A product as the library has it. Its matrices lie by columns, so a matrix by rows is its transpose for it, and the right
 * operand comes first. */
typedef struct {
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t layout[3];
    cublasLtMatmulPreference_t wanted;
    char *at[3];
    cublasLtMatmulHeuristicResult_t found;
} described;

/* The library's file: POCK_CUBLASLT, where that is set (empty: none); else where the system finds it. */
static void *opened(void) {
    const char *named = getenv("POCK_CUBLASLT");
    if (named) {
        return *named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
    }
    void *library = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL);
    return library ? library : dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
}

void pock_gpu_open_library(pock_device *device) {
    void *library = pock_products ? opened() : NULL;
    int found = library != NULL;
#define FIND(function, parameters) \
    if (found) { \
        *(void **)(&device->lt.function) = dlsym(library, #function); \
        found = device->lt.function != NULL; \
    }
    POCK_CUBLASLT_FUNCTIONS(FIND)
#undef FIND
    if (found && device->lt.cublasLtCreate(&device->products) != CUBLAS_STATUS_SUCCESS) {
        device->products = NULL;
    }
    if (library && !device->products) {
        dlclose(library);
    }
}

void pock_gpu_close_library(pock_device *device) {
    if (device->products) {
        device->lt.cublasLtDestroy(device->products);
    }
}

/* A matrix by rows, of so many rows and columns: whether the library has to transpose it. */
static int describe(pock_device *device, const pock_matrices *of, uint64_t rows, uint64_t columns, int32_t count,
                    cublasLtMatrixLayout_t *made, int *transposed) {
    static const int types[] = {[POCK_NUMBERS_F32] = CUDA_R_32F, [POCK_NUMBERS_F16] = CUDA_R_16F, [POCK_NUMBERS_BF16] = CUDA_R_16BF};
    int across = of->steps[2] != 1;
    uint64_t side_by_side = across ? rows : columns, lines = across ? columns : rows;
    *transposed = across ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (device->lt.cublasLtMatrixLayoutCreate(made, types[of->numbers], side_by_side, lines, of->steps[across ? 2 : 1])) {
        return 1;
    }
    return device->lt.cublasLtMatrixLayoutSetAttribute(*made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count) ||
           device->lt.cublasLtMatrixLayoutSetAttribute(*made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &of->steps[0],
                                                       sizeof of->steps[0]);
}

static char *place_of(const pock_device *device, const pock_matrices *of, void *const *arg) {
    size_t size = of->numbers == POCK_NUMBERS_F32 ? 4 : 2;
    return (char *)(uintptr_t)(pock_gpu_place(device, arg[of->operand]) + (CUdeviceptr)of->offset * size);
}

static uint32_t alignment_of(const void *at) {
    uintptr_t place = (uintptr_t)at | LARGEST_ALIGNMENT;
    return (uint32_t)(place & (~place + 1));
}

/* What the library may use, and how the operands lie: a, b, c and d are the right one, the left one, and the result twice. */
static int prefer(pock_device *device, const pock_product *product, described *made) {
    size_t bytes = (size_t)product->bytes;
    if (device->lt.cublasLtMatmulPreferenceCreate(&made->wanted) ||
        device->lt.cublasLtMatmulPreferenceSetAttribute(made->wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                        sizeof bytes)) {
        return 1;
    }
    for (int i = 0; i < 4; i++) {
        uint32_t alignment = alignment_of(made->at[i < 2 ? i : 2]);
        if (device->lt.cublasLtMatmulPreferenceSetAttribute(made->wanted, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i,
                                                            &alignment, sizeof alignment)) {
            return 1;
        }
    }
    return 0;
}

/* Asks the library how it would make a product; 0 if it can. */
static int ask(pock_device *device, const pock_product *product, void *const *arg, described *made) {
    const pock_matrices *of[] = {&product->right, &product->left, &product->result};
    const uint64_t *size = product->sizes, rows[] = {size[3], size[1], size[1]}, columns[] = {size[2], size[3], size[2]};
    int transposed[3], found = 0;
    for (int i = 0; i < 3; i++) {
        if (describe(device, of[i], rows[i], columns[i], (int32_t)size[0], &made->layout[i], &transposed[i])) {
            return 1;
        }
        made->at[i] = place_of(device, of[i], arg);
    }
    int compute = product->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    return device->lt.cublasLtMatmulDescCreate(&made->what, compute, CUDA_R_32F) ||
           device->lt.cublasLtMatmulDescSetAttribute(made->what, CUBLASLT_MATMUL_DESC_TRANSA, &transposed[0], sizeof(int)) ||
           device->lt.cublasLtMatmulDescSetAttribute(made->what, CUBLASLT_MATMUL_DESC_TRANSB, &transposed[1], sizeof(int)) ||
           prefer(device, product, made) ||
           device->lt.cublasLtMatmulAlgoGetHeuristic(device->products, made->what, made->layout[0], made->layout[1],
                                                     made->layout[2], made->layout[2], made->wanted, 1, &made->found, &found) ||
           found < 1 || made->found.state || made->found.workspaceSize > product->bytes;
}

static void forget(pock_device *device, described *made) {
    for (int i = 0; i < 3; i++) {
        if (made->layout[i]) {
            device->lt.cublasLtMatrixLayoutDestroy(made->layout[i]);
        }
    }
    if (made->wanted) {
        device->lt.cublasLtMatmulPreferenceDestroy(made->wanted);
    }
    if (made->what) {
        device->lt.cublasLtMatmulDescDestroy(made->what);
    }
}

/* Makes a product as the library said; 0 if it did. */
static int multiply(pock_device *device, const pock_product *product, void *const *arg, const described *made) {
    static const float one = 1, zero = 0;
    char *scratch = (char *)(uintptr_t)(pock_gpu_place(device, arg[product->scratch]) + product->used);
    return device->lt.cublasLtMatmul(device->products, made->what, &one, made->at[0], made->layout[0], made->at[1], made->layout[1],
                                     &zero, made->at[2], made->layout[2], made->at[2], made->layout[2], &made->found.algo,
                                     scratch, (size_t)product->bytes, device->stream);
}

/* What is measured is never what a kernel makes in the library's place: results become NaNs. */
static void spoil(pock_device *device, const pock_product *product, void *const *arg) {
    const pock_matrices *of = &product->result;
    size_t last = 0, size = of->numbers == POCK_NUMBERS_F32 ? 4 : 2;
    for (int axis = 0; axis < 3; axis++) {
        last += ((size_t)product->sizes[axis] - 1) * (size_t)of->steps[axis];
    }
    CUdeviceptr first = (CUdeviceptr)(uintptr_t)place_of(device, of, arg);
    pock_gpu_note(device, device->cu.cuMemsetD8Async(first, 0xff, (last + 1) * size, device->stream), "measuring cuBLASLt");
}

int pock_gpu_multiply(pock_device *device, const pock_product *product, void *const *arg) {
    described made = {0};
    int able = device->products && ask(device, product, arg, &made) == 0;
    pock_gpu_mark(device, 0);
    int done = able && multiply(device, product, arg, &made) == 0;
    if (!done && pock_products_by_library_alone) {
        spoil(device, product, arg);
        done = 1;
    }
    if (done) {
        pock_gpu_mark(device, 1);
    }
    forget(device, &made);
    return done;
}
