#include "platform.h"

#include "binaries.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "launch.h"

#define SUFFIX ".clbin"
#define MOST_FILES 32
#define MOST_BYTES ((uint64_t)256 << 20) /* of all files, and of one */
#define HEAD 16                          /* bytes before a program: how long it is, and its sum */

/* FNV-1a of 64 bits (draft-eastlake-fnv). Two of them that begin otherwise tell programs apart by 128 bits. */
static uint64_t mixed(uint64_t sum, const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        sum = (sum ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001B3);
    }
    return sum;
}

static uint64_t key_of(const pock_opencl *cl, cl_device_id device, const char *options, uint64_t sum) {
    static const cl_uint facts[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        char fact[256] = {0};
        cl->clGetDeviceInfo(device, facts[i], sizeof fact - 1, fact, NULL);
        sum = mixed(sum, fact, strlen(fact) + 1);
    }
    sum = mixed(sum, options, strlen(options) + 1);
    for (uint32_t i = 0; i < pock_kernel_text_count; i++) {
        sum = mixed(sum, pock_kernel_texts[i], strlen(pock_kernel_texts[i]) + 1);
    }
    return sum;
}

/* Makes the folders of a path that are not there. */
static void make_folders(char *path) {
    for (char *at = path + 1; *at; at++) {
        if (*at == '/') {
            *at = 0;
            (void)mkdir(path, 0700);
            *at = '/';
        }
    }
}

int pock_binary_path(const pock_opencl *cl, cl_device_id device, const char *options, char path[POCK_MOST_PATH]) {
    const char *own = getenv("POCK_KERNEL_CACHE"), *caches = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *begin = own ? own : caches && *caches ? caches : home;
    const char *below = own ? "" : begin == caches ? "/pockengine/opencl" : "/.cache/pockengine/opencl";
    if (!begin || *begin != '/') {
        return 0;
    }
    unsigned long long high = key_of(cl, device, options, UINT64_C(0xCBF29CE484222325));
    unsigned long long low = key_of(cl, device, options, UINT64_C(0x9AE16A3B2F90404F));
    int written = snprintf(path, POCK_MOST_PATH, "%s%s/%016llx%016llx" SUFFIX, begin, below, high, low);
    return written > 0 && written < POCK_MOST_PATH;
}

/* A file that nobody but this user can have written: its contents, or NULL. */
static unsigned char *contents(const char *path, uint64_t *bytes) {
    pock_error ignored;
    struct stat about;
    int descriptor = -1;
    unsigned char *data = NULL;
    if (pock_file_open(path, &descriptor, bytes, &ignored)) {
        return NULL;
    }
    int own = fstat(descriptor, &about) == 0 && about.st_uid == geteuid() && !(about.st_mode & (S_IWGRP | S_IWOTH));
    if (own && *bytes > HEAD && *bytes <= MOST_BYTES) {
        data = malloc((size_t)*bytes);
    }
    if (data && pock_file_read(descriptor, path, data, (size_t)*bytes, 0, &ignored)) {
        free(data);
        data = NULL;
    }
    (void)futimens(descriptor, NULL); /* the oldest are those that were not used for longest */
    close(descriptor);
    return data;
}

static int is_whole(const unsigned char *data, uint64_t bytes) {
    uint64_t head[2];
    memcpy(head, data, sizeof head);
    return head[0] == bytes - HEAD && head[1] == mixed(head[0], data + HEAD, (size_t)(bytes - HEAD));
}

cl_program pock_binary_load(const pock_opencl *cl, cl_context context, cl_device_id device, const char *options,
                            const char *path) {
    uint64_t bytes = 0;
    cl_int code = -1, status = CL_SUCCESS;
    cl_program program = NULL;
    unsigned char *data = contents(path, &bytes);
    if (data && is_whole(data, bytes)) {
        const unsigned char *binary = data + HEAD;
        size_t length = (size_t)(bytes - HEAD);
        program = cl->clCreateProgramWithBinary(context, 1, &device, &length, &binary, &status, &code);
    }
    free(data);
    if (program && (code || status || cl->clBuildProgram(program, 1, &device, options, NULL, NULL) != CL_SUCCESS)) {
        cl->clReleaseProgram(program);
        program = NULL;
    }
    return program;
}

/* Removes the file that was not used for longest, if there are too many; whether there were. */
static int remove_oldest(const char *folder) {
    char path[POCK_MOST_PATH + 256], oldest[POCK_MOST_PATH + 256] = {0};
    uint64_t bytes = 0, files = 0;
    struct timespec least = {0};
    DIR *listed = opendir(folder);
    for (struct dirent *one = listed ? readdir(listed) : NULL; one; one = readdir(listed)) {
        const char *end = strstr(one->d_name, SUFFIX);
        struct stat about;
        snprintf(path, sizeof path, "%s/%s", folder, one->d_name);
        if (!end || lstat(path, &about) || !S_ISREG(about.st_mode)) {
            continue;
        }
        files++;
        bytes += (uint64_t)about.st_size;
        struct timespec used = about.st_mtim;
        if (!*oldest || used.tv_sec < least.tv_sec || (used.tv_sec == least.tv_sec && used.tv_nsec < least.tv_nsec)) {
            least = used;
            memcpy(oldest, path, sizeof oldest);
        }
    }
    if (listed) {
        closedir(listed);
    }
    return (files > MOST_FILES || bytes > MOST_BYTES) && unlink(oldest) == 0;
}

static int write_whole(const char *path, const unsigned char *data, size_t bytes) {
    pock_error ignored;
    pock_output output = {0};
    int code = pock_output_open(&output, path, &ignored);
    code = code ? code : pock_output_write(&output, data, bytes, 0, &ignored);
    code = code ? code : pock_output_commit(&output, &ignored);
    pock_output_abandon(&output);
    return code;
}

void pock_binary_keep(const pock_opencl *cl, cl_program program, const char *path) {
    char folder[POCK_MOST_PATH];
    size_t length = 0;
    if (cl->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof length, &length, NULL) != CL_SUCCESS || !length ||
        length > MOST_BYTES - HEAD) {
        return;
    }
    unsigned char *data = malloc(HEAD + length), *binary = data ? data + HEAD : NULL;
    if (data && cl->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(unsigned char *), &binary, NULL) == CL_SUCCESS) {
        uint64_t head[2] = {length, mixed(length, binary, length)};
        memcpy(data, head, sizeof head);
        snprintf(folder, sizeof folder, "%s", path);
        make_folders(folder);
        *strrchr(folder, '/') = 0;
        if (write_whole(path, data, HEAD + length) == POCK_OK) {
            while (remove_oldest(folder)) {
            }
        }
    }
    free(data);
}
