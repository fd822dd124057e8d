/* Kernels run on an OpenCL device. A model's blocks are buffers over the memory that the processor has: where both share
 * one memory, as on phones, nothing is copied. */
#include "platform.h"

#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binaries.h"
#include "launch.h"

#define MOST_DEVICES 16
#define MOST_THREADS 256
#define TEXEL 16

struct pock_device {
    void *library;
    pock_opencl cl;
    cl_device_id id;
    char name[128];
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel *kernels;
    cl_mem buffer[POCK_SPACES];
    cl_mem image[POCK_SPACES]; /* of the same memory; NULL: kernels read buffers */
    char *space[POCK_SPACES];
    size_t bytes[POCK_SPACES];
    int observed, mapped;
    cl_int failure; /* the first of a run */
    const char *failed;
};

/* Kernels are started by functions without a context: the run of this thread has one. */
static _Thread_local pock_device *running;

static int load(pock_device *device, pock_error *error) {
    static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !device->library; i++) {
        device->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (!device->library) {
        return pock_fail(error, POCK_FAILED, "there is no OpenCL here: libOpenCL.so.1 is not found; install the GPU's "
                                             "driver, or its OpenCL package");
    }
#define FIND(result, name, parameters) \
    *(void **)(&device->cl.name) = dlsym(device->library, #name); \
    if (!device->cl.name) { \
        return pock_fail(error, POCK_FAILED, "the OpenCL library lacks " #name ": update the GPU's driver"); \
    }
    POCK_OPENCL_FUNCTIONS(FIND)
    return POCK_OK;
}

/* The first GPU, or the first device of any kind. */
static int choose(pock_device *device, pock_error *error) {
    static const cl_ulong kinds[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL};
    cl_platform_id platforms[MOST_DEVICES];
    cl_uint count = 0;
    if (device->cl.clGetPlatformIDs(MOST_DEVICES, platforms, &count) != CL_SUCCESS) {
        count = 0;
    }
    count = count < MOST_DEVICES ? count : MOST_DEVICES;
    for (size_t kind = 0; kind < 2; kind++) {
        for (cl_uint i = 0; i < count; i++) {
            cl_uint found = 0;
            if (device->cl.clGetDeviceIDs(platforms[i], kinds[kind], 1, &device->id, &found) == CL_SUCCESS && found) {
                return POCK_OK;
            }
        }
    }
    return pock_fail(error, POCK_FAILED, "OpenCL is here, but no device: install the GPU's driver, and see what `clinfo` "
                                         "lists");
}

static cl_ulong number_of(const pock_device *device, cl_uint what) {
    cl_ulong value = 0; /* the sizes among them have as many bytes on the machines that we build for */
    return device->cl.clGetDeviceInfo(device->id, what, sizeof value, &value, NULL) == CL_SUCCESS ? value : 0;
}

static int fits(const pock_device *device, const pock_model *model, pock_error *error) {
    cl_ulong most = number_of(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE), all = number_of(device, CL_DEVICE_GLOBAL_MEM_SIZE);
    cl_ulong sum = 0, largest = 0;
    for (int space = 0; space < POCK_SPACES; space++) {
        sum += device->bytes[space];
        largest = device->bytes[space] > largest ? device->bytes[space] : largest;
    }
    if (sum > all || largest > most) {
        return pock_fail(error, POCK_MEMORY, "'%s' needs %.1f MB, one block of %.1f MB among them; %s has %.1f MB and "
                                             "gives at most %.1f MB at once: compile with a smaller batch or update",
                         model->name, (double)sum / 1e6, (double)largest / 1e6, device->name, (double)all / 1e6,
                         (double)most / 1e6);
    }
    if (number_of(device, CL_DEVICE_MAX_WORK_GROUP_SIZE) < MOST_THREADS) {
        return pock_fail(error, POCK_FAILED, "%s runs fewer than %d threads a block, which kernels need", device->name,
                         MOST_THREADS);
    }
    if (pock_kernels_need_double && !number_of(device, CL_DEVICE_DOUBLE_FP_CONFIG)) {
        return pock_fail(error, POCK_FAILED, "%s has no double precision, which '%s' computes with: export the model in "
                                             "float32", device->name, model->name);
    }
    return POCK_OK;
}

/* Makes images of the blocks of which kernels read some, where the device has such images, and as long ones: else they read
 * texels from the buffer. */
static void make_images(pock_device *device) {
    const cl_image_format bits = {CL_RGBA, CL_UNSIGNED_INT32};
    cl_ulong most = number_of(device, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE);
    uint32_t wanted = (cl_uint)number_of(device, CL_DEVICE_IMAGE_SUPPORT) ? pock_image_blocks : 0;
    for (int space = 0; space < POCK_SPACES; space++) {
        cl_int code = CL_SUCCESS;
        cl_image_desc all = {.type = CL_MEM_OBJECT_IMAGE1D_BUFFER, .buffer = device->buffer[space]};
        all.width = device->bytes[space] / TEXEL;
        if (wanted >> space & 1 && all.width && all.width <= most) {
            cl_mem made = device->cl.clCreateImage(device->context, CL_MEM_READ_ONLY, &bits, &all, NULL, &code);
            device->image[space] = code == CL_SUCCESS ? made : NULL;
        }
    }
}

/* Options of the driver's compiler: they say of which blocks there are images. */
static void write_options(const pock_device *device, char *options, size_t bytes) {
    int exact = (number_of(device, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    int at = snprintf(options, bytes, "-cl-std=CL1.2%s", exact ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    for (int space = 0; space < POCK_SPACES; space++) {
        if (device->image[space]) {
            at += snprintf(options + at, bytes - (size_t)at, " -DPOCK_IMAGES_%d", space);
        }
    }
}

static int compile(pock_device *device, const char *options, pock_error *error) {
    cl_int code = CL_SUCCESS;
    const char **texts = (const char **)(uintptr_t)pock_kernel_texts;
    device->program = device->cl.clCreateProgramWithSource(device->context, pock_kernel_text_count, texts, NULL, &code);
    if (code != CL_SUCCESS) {
        return pock_fail(error, POCK_FAILED, "%s refuses the kernels (OpenCL error %d)", device->name, (int)code);
    }
    if (device->cl.clBuildProgram(device->program, 1, &device->id, options, NULL, NULL) == CL_SUCCESS) {
        return POCK_OK;
    }
    char said[16384] = {0};
    device->cl.clGetProgramBuildInfo(device->program, device->id, CL_PROGRAM_BUILD_LOG, sizeof said - 1, said, NULL);
    const char *first = strstr(said, "error");
    first = first ? first : said;
    return pock_fail(error, POCK_FAILED, "%s does not compile the kernels: %.*s", device->name,
                     (int)strcspn(first, "\r\n"), first);
}

/* From what an earlier start kept, or by the driver's compiler. */
static int make_program(pock_device *device, pock_error *error) {
    char options[256], path[POCK_MOST_PATH];
    write_options(device, options, sizeof options);
    int kept = pock_binary_path(&device->cl, device->id, options, path);
    device->program = kept ? pock_binary_load(&device->cl, device->context, device->id, options, path) : NULL;
    if (device->program) {
        return POCK_OK;
    }
    int code = compile(device, options, error);
    if (!code && kept) {
        pock_binary_keep(&device->cl, device->program, path);
    }
    return code;
}

static int start(pock_device *device, pock_error *error) {
    cl_int code = CL_SUCCESS;
    device->context = device->cl.clCreateContext(NULL, 1, &device->id, NULL, NULL, &code);
    if (code == CL_SUCCESS) {
        device->queue = device->cl.clCreateCommandQueue(device->context, device->id, 0, &code);
    }
    for (int space = 0; space < POCK_SPACES && code == CL_SUCCESS; space++) {
        device->buffer[space] = device->cl.clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR,
                                                          device->bytes[space], device->space[space], &code);
    }
    if (code != CL_SUCCESS) {
        return pock_fail(error, POCK_MEMORY, "%s does not take the model's memory (OpenCL error %d)", device->name,
                         (int)code);
    }
    make_images(device);
    int failed = make_program(device, error);
    device->kernels = failed ? NULL : calloc(pock_kernel_count + 1, sizeof *device->kernels);
    if (!failed && !device->kernels) {
        failed = pock_fail(error, POCK_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < pock_kernel_count && !failed; i++) {
        device->kernels[i] = device->cl.clCreateKernel(device->program, pock_kernel_names[i], &code);
        if (code != CL_SUCCESS) {
            failed = pock_fail(error, POCK_FAILED, "%s has no place for the kernel %s (OpenCL error %d)", device->name,
                               pock_kernel_names[i], (int)code);
        }
    }
    return failed;
}

/* Remembers the first failure of a run. */
static void note(pock_device *device, cl_int code, const char *what) {
    if (code != CL_SUCCESS && device->failure == CL_SUCCESS) {
        device->failure = code;
        device->failed = what;
    }
}

/* Hands the blocks to the processor. */
static void map(pock_device *device) {
    for (int space = 0; space < POCK_SPACES && !device->mapped; space++) {
        cl_int code = CL_SUCCESS;
        device->cl.clEnqueueMapBuffer(device->queue, device->buffer[space], CL_TRUE, CL_MAP_READ_WRITE, 0,
                                      device->bytes[space], 0, NULL, NULL, &code);
        note(device, code, "reading the results");
    }
    device->mapped = 1;
}

static int report(pock_device *device, pock_error *error) {
    if (device->failure == CL_SUCCESS) {
        return POCK_OK;
    }
    cl_int code = device->failure;
    device->failure = CL_SUCCESS;
    return pock_fail(error, POCK_FAILED, "%s failed (OpenCL error %d, %s): the step's results are lost; resume from the "
                                         "last checkpoint", device->name, (int)code, device->failed);
}

int pock_device_open(pock_device **opened, const pock_model *model, char *const space[POCK_SPACES],
                     const size_t bytes[POCK_SPACES], pock_error *error) {
    pock_device *device = *opened = calloc(1, sizeof *device);
    if (!device) {
        return pock_fail(error, POCK_MEMORY, "out of memory");
    }
    memcpy(device->space, space, sizeof device->space);
    memcpy(device->bytes, bytes, sizeof device->bytes);
    int code = load(device, error);
    code = code ? code : choose(device, error);
    if (!code) {
        device->cl.clGetDeviceInfo(device->id, CL_DEVICE_NAME, sizeof device->name - 1, device->name, NULL);
    }
    code = code ? code : fits(device, model, error);
    code = code ? code : start(device, error);
    if (!code) {
        map(device);
        code = report(device, error);
    }
    return code;
}

void pock_device_close(pock_device *device) {
    if (!device) {
        return;
    }
    if (device->queue) {
        device->cl.clFinish(device->queue);
    }
    for (uint32_t i = 0; device->kernels && i < pock_kernel_count; i++) {
        if (device->kernels[i]) {
            device->cl.clReleaseKernel(device->kernels[i]);
        }
    }
    free(device->kernels);
    if (device->program) {
        device->cl.clReleaseProgram(device->program);
    }
    for (int space = 0; space < POCK_SPACES; space++) {
        if (device->image[space]) {
            device->cl.clReleaseMemObject(device->image[space]);
        }
        if (device->buffer[space]) {
            device->cl.clReleaseMemObject(device->buffer[space]);
        }
    }
    if (device->queue) {
        device->cl.clReleaseCommandQueue(device->queue);
    }
    if (device->context) {
        device->cl.clReleaseContext(device->context);
    }
    free(device); /* the library stays: drivers do not expect to be unloaded */
}

int pock_device_begin(pock_device *device, const pock_program *program, int observed) {
    (void)program;
    for (int space = 0; space < POCK_SPACES && device->mapped; space++) {
        note(device, device->cl.clEnqueueUnmapMemObject(device->queue, device->buffer[space], device->space[space], 0,
                                                        NULL, NULL), "giving it the inputs");
    }
    device->mapped = 0;
    device->observed = observed;
    running = device;
    return 1;
}

void pock_device_start(pock_device *device, const pock_program *program) {
    (void)device;
    (void)program;
}

int pock_device_end(pock_device *device, pock_error *error) {
    note(device, device->cl.clFinish(device->queue), "waiting for the kernels");
    map(device);
    running = NULL;
    return report(device, error);
}

/* Between programs the blocks are mapped: what lies in them is this processor's. */
int pock_device_fetch(pock_device *device, pock_error *error) {
    (void)device;
    (void)error;
    return POCK_OK;
}

void pock_device_changed(pock_device *device) {
    (void)device;
}

/* The block in which an operand lies, and how many bytes from its beginning. */
static int space_of(const pock_device *device, const char *at, int64_t *offset) {
    int space = 0;
    while (space + 1 < POCK_SPACES && !(at >= device->space[space] && at < device->space[space] + device->bytes[space])) {
        space++;
    }
    *offset = at - device->space[space];
    return space;
}

static cl_int give(const pock_device *device, cl_kernel kernel, cl_uint index, const cl_mem *memory, int64_t offset) {
    cl_int code = device->cl.clSetKernelArg(kernel, 2 * index, sizeof *memory, memory);
    return code ? code : device->cl.clSetKernelArg(kernel, 2 * index + 1, sizeof offset, &offset);
}

void pock_launch(uint32_t number, size_t blocks, size_t threads, void *const *arg, uint32_t operands) {
    pock_launch_mapped(number, blocks, threads, arg, operands, NULL, 0);
}

void pock_launch_mapped(uint32_t number, size_t blocks, size_t threads, void *const *arg, uint32_t operands,
                        const pock_device_map *maps, uint32_t count) {
    pock_device *device = running;
    cl_kernel kernel = device->kernels[number];
    cl_int code = CL_SUCCESS;
    int64_t offset = 0;
    for (cl_uint i = 0; i < operands && code == CL_SUCCESS; i++) {
        int space = space_of(device, arg[i], &offset);
        code = give(device, kernel, i, &device->buffer[space], offset);
    }
    for (cl_uint i = 0; i < count && code == CL_SUCCESS; i++) {
        int space = space_of(device, arg[maps[i].operand], &offset);
        int image = maps[i].block >= 0 && device->image[maps[i].block];
        code = give(device, kernel, operands + i, image ? &device->image[space] : &device->buffer[space], offset / TEXEL);
    }
    size_t all = blocks * threads;
    code = code ? code : device->cl.clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &all, &threads, 0, NULL, NULL);
    note(device, code, pock_kernel_names[number]);
    if (device->observed) {
        note(device, device->cl.clFinish(device->queue), pock_kernel_names[number]);
    }
}
