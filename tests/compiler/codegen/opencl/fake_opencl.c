/* An OpenCL library whose one device computes nothing and has the trouble that FAKE names. FAKE_LOG gets a line for each
 * program that is made: what of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"

static int is(const char *trouble) {
    const char *asked = getenv("FAKE");
    return asked && strcmp(asked, trouble) == 0;
}

static void *const thing = (void *)8;
static const char machine_code[] = "what the driver made";

static void note(const char *made_of) {
    const char *path = getenv("FAKE_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (log) {
        fprintf(log, "%s\n", made_of);
        fclose(log);
    }
}

cl_int clGetPlatformIDs(cl_uint most, cl_platform_id *platforms, cl_uint *count) {
    (void)most;
    *count = 1;
    *platforms = thing;
    return CL_SUCCESS;
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_ulong kind, cl_uint most, cl_device_id *devices, cl_uint *count) {
    (void)platform;
    (void)most;
    if (is("empty") || kind != CL_DEVICE_TYPE_GPU) {
        return CL_DEVICE_NOT_FOUND;
    }
    *count = 1;
    *devices = thing;
    return CL_SUCCESS;
}

cl_int clGetDeviceInfo(cl_device_id device, cl_uint what, size_t bytes, void *value, size_t *written) {
    (void)device;
    (void)written;
    if (what == CL_DEVICE_NAME) {
        strncpy(value, "Fake GPU", bytes);
        return CL_SUCCESS;
    }
    if (what == CL_DRIVER_VERSION) {
        strncpy(value, is("newer") ? "2" : "1", bytes);
        return CL_SUCCESS;
    }
    cl_ulong number = what == CL_DEVICE_MAX_WORK_GROUP_SIZE  ? (is("narrow") ? 64 : 1024)
                      : what == CL_DEVICE_IMAGE_SUPPORT ? is("images") || is("short images") || is("no images after all")
                      : what == CL_DEVICE_IMAGE_MAX_BUFFER_SIZE ? (is("short images") ? 16 : 65536)
                      : what == CL_DEVICE_MAX_MEM_ALLOC_SIZE ? (is("small") ? 2000 : (cl_ulong)1 << 40)
                      : what == CL_DEVICE_GLOBAL_MEM_SIZE    ? (cl_ulong)1 << 40
                                                             : 0;
    memcpy(value, &number, bytes < sizeof number ? bytes : sizeof number);
    return CL_SUCCESS;
}

cl_context clCreateContext(const intptr_t *properties, cl_uint count, const cl_device_id *devices, void *notify,
                           void *data, cl_int *code) {
    (void)properties;
    (void)count;
    (void)devices;
    (void)notify;
    (void)data;
    *code = CL_SUCCESS;
    return thing;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_ulong how, cl_int *code) {
    (void)context;
    (void)device;
    (void)how;
    *code = CL_SUCCESS;
    return thing;
}

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                     cl_int *code) {
    (void)context;
    (void)count;
    (void)texts;
    (void)sizes;
    note("text");
    *code = CL_SUCCESS;
    return thing;
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices, const size_t *sizes,
                                     const unsigned char **binaries, cl_int *status, cl_int *code) {
    (void)context;
    (void)count;
    (void)devices;
    int right = !is("stale") && *sizes == sizeof machine_code && memcmp(*binaries, machine_code, *sizes) == 0;
    note(right ? "binary" : "refused");
    *status = *code = right ? CL_SUCCESS : -42;
    return right ? thing : NULL;
}

cl_int clGetProgramInfo(cl_program program, cl_uint what, size_t bytes, void *value, size_t *written) {
    (void)program;
    (void)bytes;
    (void)written;
    if (what == CL_PROGRAM_BINARY_SIZES) {
        *(size_t *)value = sizeof machine_code;
    } else {
        memcpy(*(unsigned char **)value, machine_code, sizeof machine_code);
    }
    return is("secretive") ? -30 : CL_SUCCESS;
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options, void *notify,
                      void *data) {
    (void)program;
    (void)count;
    (void)devices;
    (void)notify;
    (void)data;
    if (strstr(options, "-DPOCK_IMAGES")) {
        note("images");
    }
    return is("refuses") ? -11 : CL_SUCCESS;
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_uint what, size_t bytes, void *value,
                             size_t *written) {
    (void)program;
    (void)device;
    (void)what;
    (void)written;
    strncpy(value, "a warning\nkernel.cl:3:1: error: no such thing\nmore of it\n", bytes);
    return CL_SUCCESS;
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *code) {
    (void)program;
    (void)name;
    *code = is("full") ? -6 : CL_SUCCESS;
    return *code == CL_SUCCESS ? thing : NULL;
}

cl_mem clCreateBuffer(cl_context context, cl_ulong how, size_t bytes, void *host, cl_int *code) {
    (void)context;
    (void)how;
    (void)bytes;
    *code = is("taken") ? -4 : CL_SUCCESS;
    return *code == CL_SUCCESS ? host : NULL;
}

cl_mem clCreateImage(cl_context context, cl_ulong how, const cl_image_format *format, const cl_image_desc *image,
                     void *host, cl_int *code) {
    (void)context;
    int right = format->order == CL_RGBA && format->type == CL_UNSIGNED_INT32 && image->type == CL_MEM_OBJECT_IMAGE1D_BUFFER &&
                image->width && image->width <= 65536 && image->buffer && how == CL_MEM_READ_ONLY && !host;
    *code = right && !is("no images after all") ? CL_SUCCESS : -10;
    return *code == CL_SUCCESS ? image->buffer : NULL;
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_uint wait, cl_ulong how, size_t from, size_t bytes,
                         cl_uint count, const cl_event *events, cl_event *event, cl_int *code) {
    (void)queue;
    (void)wait;
    (void)how;
    (void)from;
    (void)bytes;
    (void)count;
    (void)events;
    (void)event;
    *code = CL_SUCCESS;
    return buffer;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint axes, const size_t *first,
                              const size_t *all, const size_t *block, cl_uint count, const cl_event *events,
                              cl_event *event) {
    (void)queue;
    (void)kernel;
    (void)axes;
    (void)first;
    (void)count;
    (void)events;
    (void)event;
    return is("lost") || *all % *block != 0 ? -5 : CL_SUCCESS;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint number, size_t bytes, const void *value) {
    (void)kernel;
    (void)number;
    (void)bytes;
    (void)value;
    return CL_SUCCESS;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem buffer, void *place, cl_uint count, const cl_event *events,
                               cl_event *event) {
    (void)queue;
    (void)buffer;
    (void)place;
    (void)count;
    (void)events;
    (void)event;
    return CL_SUCCESS;
}

cl_int clFinish(cl_command_queue queue) {
    (void)queue;
    return CL_SUCCESS;
}

cl_int clReleaseContext(cl_context context) {
    (void)context;
    return CL_SUCCESS;
}

cl_int clReleaseCommandQueue(cl_command_queue queue) {
    (void)queue;
    return CL_SUCCESS;
}

cl_int clReleaseProgram(cl_program program) {
    (void)program;
    return CL_SUCCESS;
}

cl_int clReleaseKernel(cl_kernel kernel) {
    (void)kernel;
    return CL_SUCCESS;
}

cl_int clReleaseMemObject(cl_mem buffer) {
    (void)buffer;
    return CL_SUCCESS;
}
