/* The part of OpenCL 1.2 that the runtime calls, as the specification declares it; the functions are found when a program
 * starts, in whatever OpenCL library the device has. */
#ifndef POCK_OPENCL_H
#define POCK_OPENCL_H

#include <stddef.h>
#include <stdint.h>

typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;
typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_PLATFORM_NOT_FOUND_KHR = -1001,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_IMAGE_SUPPORT = 0x1016,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    CL_DEVICE_IMAGE_MAX_BUFFER_SIZE = 0x1040,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_VENDOR = 0x102C,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_RGBA = 0x10B5,
    CL_UNSIGNED_INT32 = 0x10DC,
    CL_MEM_OBJECT_IMAGE1D_BUFFER = 0x10F6
};
typedef struct {
    cl_uint order, type;
} cl_image_format;
typedef struct {
    cl_uint type;
    size_t width, height, depth, array_size, row_pitch, slice_pitch;
    cl_uint mip_levels, samples;
    cl_mem buffer;
} cl_image_desc;
#define CL_DEVICE_TYPE_GPU (UINT64_C(1) << 2)
#define CL_DEVICE_TYPE_ALL UINT64_C(0xFFFFFFFF)
#define CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT (UINT64_C(1) << 7)
#define CL_MEM_READ_WRITE (UINT64_C(1) << 0)
#define CL_MEM_READ_ONLY (UINT64_C(1) << 2)
#define CL_MEM_USE_HOST_PTR (UINT64_C(1) << 3)
#define CL_MAP_READ_WRITE (UINT64_C(3))
#define CL_TRUE 1u
#define CL_FALSE 0u

/* X(result, name, parameters) for each function. */
#define POCK_OPENCL_FUNCTIONS(X) \
    X(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *)) \
    X(cl_int, clGetDeviceIDs, (cl_platform_id, cl_ulong, cl_uint, cl_device_id *, cl_uint *)) \
    X(cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *)) \
    X(cl_context, clCreateContext, (const intptr_t *, cl_uint, const cl_device_id *, void *, void *, cl_int *)) \
    X(cl_int, clReleaseContext, (cl_context)) \
    X(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_ulong, cl_int *)) \
    X(cl_int, clReleaseCommandQueue, (cl_command_queue)) \
    X(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *)) \
    X(cl_program, clCreateProgramWithBinary, (cl_context, cl_uint, const cl_device_id *, const size_t *, \
                                              const unsigned char **, cl_int *, cl_int *)) \
    X(cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *)) \
    X(cl_int, clBuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, void *, void *)) \
    X(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *)) \
    X(cl_int, clReleaseProgram, (cl_program)) \
    X(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *)) \
    X(cl_int, clReleaseKernel, (cl_kernel)) \
    X(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *)) \
    X(cl_mem, clCreateBuffer, (cl_context, cl_ulong, size_t, void *, cl_int *)) \
    X(cl_mem, clCreateImage, (cl_context, cl_ulong, const cl_image_format *, const cl_image_desc *, void *, cl_int *)) \
    X(cl_int, clReleaseMemObject, (cl_mem)) \
    X(void *, clEnqueueMapBuffer, (cl_command_queue, cl_mem, cl_uint, cl_ulong, size_t, size_t, cl_uint, \
                                   const cl_event *, cl_event *, cl_int *)) \
    X(cl_int, clEnqueueUnmapMemObject, (cl_command_queue, cl_mem, void *, cl_uint, const cl_event *, cl_event *)) \
    X(cl_int, clEnqueueNDRangeKernel, (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, \
                                       const size_t *, cl_uint, const cl_event *, cl_event *)) \
    X(cl_int, clFinish, (cl_command_queue))

#define POCK_FIELD(result, name, parameters) result (*name) parameters;
typedef struct {
    POCK_OPENCL_FUNCTIONS(POCK_FIELD)
} pock_opencl;

#endif
