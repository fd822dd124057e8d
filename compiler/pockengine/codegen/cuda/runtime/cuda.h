/* The part of CUDA's driver interface that the runtime calls, as the driver's documentation declares it; the functions are
 * found when a program starts, in the driver that the device has. */
#ifndef POCK_CUDA_H
#define POCK_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100 };

/* Attributes of a device. */
enum {
    CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED = 99
};

#define CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES 8
#define POCK_USUAL_SHARED (48u << 10) /* bytes that every launch may give a block */
#define CU_MEMHOSTREGISTER_DEVICEMAP 2u
#define CU_EVENT_DEFAULT 0u
#define CU_EVENT_DISABLE_TIMING 2u
#define CU_STREAM_NON_BLOCKING 1u
#define CU_STREAM_CAPTURE_MODE_RELAXED 2

/* What the driver says of a pointer. */
enum { CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9, CU_MEMORYTYPE_DEVICE = 2 };

/* The stream that CUDA's libraries use unless told another one. */
#define CU_STREAM_LEGACY ((CUstream)(uintptr_t)1)

/* How an engine of the GPU's copies boxes of a tensor: the driver's own form. */
typedef struct {
    _Alignas(64) uint64_t opaque[16];
} CUtensorMap;
enum { CU_TENSOR_MAP_DATA_TYPE_UINT8 = 0, CU_TENSOR_MAP_DATA_TYPE_UINT16 = 1 };
enum { CU_TENSOR_MAP_INTERLEAVE_NONE = 0, CU_TENSOR_MAP_SWIZZLE_128B = 3, CU_TENSOR_MAP_L2_PROMOTION_L2_256B = 3 };
enum { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE = 0 };

/* X(function, its name in the driver, parameters) for each. */
#define POCK_CUDA_FUNCTIONS(X) \
    X(cuInit, "cuInit", (unsigned)) \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *)) \
    X(cuGetErrorString, "cuGetErrorString", (CUresult, const char **)) \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *)) \
    X(cuDeviceGet, "cuDeviceGet", (CUdevice *, int)) \
    X(cuDeviceGetName, "cuDeviceGetName", (char *, int, CUdevice)) \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, CUdevice)) \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, CUdevice)) \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice)) \
    X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext)) \
    X(cuPointerGetAttribute, "cuPointerGetAttribute", (void *, int, CUdeviceptr)) \
    X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *)) \
    X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t)) \
    X(cuMemFree, "cuMemFree_v2", (CUdeviceptr)) \
    X(cuMemHostRegister, "cuMemHostRegister_v2", (void *, size_t, unsigned)) \
    X(cuMemHostUnregister, "cuMemHostUnregister", (void *)) \
    X(cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2", (CUdeviceptr *, void *, unsigned)) \
    X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void *, size_t, CUstream)) \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void *, CUdeviceptr, size_t, CUstream)) \
    X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
    X(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, size_t, CUstream)) \
    X(cuMemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned)) \
    X(cuMemFreeHost, "cuMemFreeHost", (void *)) \
    X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *)) \
    X(cuModuleUnload, "cuModuleUnload", (CUmodule)) \
    X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *)) \
    X(cuFuncSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int)) \
    X(cuLaunchKernel, "cuLaunchKernel", (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
                                         unsigned, CUstream, void **, void **)) \
    X(cuTensorMapEncodeTiled, "cuTensorMapEncodeTiled", (CUtensorMap *, int, uint32_t, CUdeviceptr, const uint64_t *, \
                                                         const uint64_t *, const uint32_t *, const uint32_t *, int, int, \
                                                         int, int)) \
    X(cuStreamCreate, "cuStreamCreate", (CUstream *, unsigned)) \
    X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream)) \
    X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream)) \
    X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned)) \
    X(cuEventCreate, "cuEventCreate", (CUevent *, unsigned)) \
    X(cuEventDestroy, "cuEventDestroy_v2", (CUevent)) \
    X(cuEventRecord, "cuEventRecord", (CUevent, CUstream)) \
    X(cuEventElapsedTime, "cuEventElapsedTime", (float *, CUevent, CUevent)) \
    X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int)) \
    X(cuStreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *)) \
    X(cuGraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec *, CUgraph, uint64_t)) \
    X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream)) \
    X(cuGraphDestroy, "cuGraphDestroy", (CUgraph)) \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))

#endif
