/* Programs that a driver compiled, kept in the user's cache: drivers of phones and boards may not keep them themselves. */
#ifndef POCK_BINARIES_H
#define POCK_BINARIES_H

#include "opencl.h"

#define POCK_MOST_PATH 1024

/* Where the program of the kernels' texts, compiled with `options` by this device's driver, is kept: a file whose name is
 * made of all of them. 0 where there is no place: neither POCK_KERNEL_CACHE (empty: keep none), XDG_CACHE_HOME nor HOME. */
int pock_binary_path(const pock_opencl *cl, cl_device_id device, const char *options, char path[POCK_MOST_PATH]);

/* The program that is kept there, built; NULL where there is none, or one that is damaged, another's, or refused. */
cl_program pock_binary_load(const pock_opencl *cl, cl_context context, cl_device_id device, const char *options,
                            const char *path);

/* Keeps a built program of one device, and removes the oldest others when there are too many. Where that fails, the driver
 * compiles again next time. */
void pock_binary_keep(const pock_opencl *cl, cl_program program, const char *path);

#endif
