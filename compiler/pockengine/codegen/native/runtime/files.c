#include "platform.h"

#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 26) /* some systems refuse single transfers of 2 GiB */

int pock_file_open(const char *path, int *descriptor, uint64_t *bytes, pock_error *error) {
    struct stat status;
    int opened = open(path, O_RDONLY | O_CLOEXEC);
    if (opened < 0) {
        return pock_fail(error, POCK_IO, "cannot read %s: %s", path, strerror(errno));
    }
    if (fstat(opened, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(opened);
        return pock_fail(error, POCK_IO, "cannot read %s: it is not a regular file", path);
    }
    *descriptor = opened;
    *bytes = (uint64_t)status.st_size;
    return POCK_OK;
}

int pock_file_read(int descriptor, const char *path, void *data, size_t bytes, uint64_t offset, pock_error *error) {
    char *at = data;
    while (bytes) {
        ssize_t got = pread(descriptor, at, bytes < CHUNK ? bytes : CHUNK, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return pock_fail(error, POCK_IO, "cannot read %s: %s", path, strerror(errno));
        }
        if (got == 0) {
            return pock_fail(error, POCK_BAD_DATA, "%s became shorter while it was read", path);
        }
        at += got;
        bytes -= (size_t)got;
        offset += (uint64_t)got;
    }
    return POCK_OK;
}

static char *joined(const char *left, const char *right) {
    size_t bytes = strlen(left) + strlen(right) + 1;
    char *text = malloc(bytes);
    if (text) {
        snprintf(text, bytes, "%s%s", left, right);
    }
    return text;
}

/* The folder a path lies in; NULL when memory ran out. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) {
        return joined(".", "");
    }
    char *folder = joined(path, "");
    if (folder) {
        folder[slash == path ? 1 : slash - path] = 0;
    }
    return folder;
}

static int cannot_write(pock_error *error, const char *path, int reason) {
    return pock_fail(error, POCK_IO, "cannot write %s: %s%s", path, strerror(reason),
                     reason == ENOSPC ? "; free some space and run again" : "");
}

int pock_output_possible(const char *path, pock_error *error) {
    struct stat status;
    char *folder = folder_of(path);
    if (!folder) {
        return pock_fail(error, POCK_MEMORY, "out of memory");
    }
    int reason = access(folder, W_OK | X_OK) == 0 ? 0 : errno;
    free(folder);
    if (reason) {
        return cannot_write(error, path, reason);
    }
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        return pock_fail(error, POCK_IO, "cannot write %s: something that is not a regular file is there", path);
    }
    return POCK_OK;
}

int pock_output_open(pock_output *output, const char *path, pock_error *error) {
    int code = pock_output_possible(path, error);
    if (code) {
        return code;
    }
    output->descriptor = -1;
    output->path = joined(path, "");
    output->temporary = joined(path, ".tmp");
    if (!output->path || !output->temporary) {
        return pock_fail(error, POCK_MEMORY, "out of memory");
    }
    output->descriptor = open(output->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    return output->descriptor < 0 ? cannot_write(error, path, errno) : POCK_OK;
}

int pock_output_write(pock_output *output, const void *data, size_t bytes, uint64_t offset, pock_error *error) {
    const char *at = data;
    while (bytes) {
        ssize_t put = pwrite(output->descriptor, at, bytes < CHUNK ? bytes : CHUNK, (off_t)offset);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return cannot_write(error, output->path, put < 0 ? errno : ENOSPC);
        }
        at += put;
        bytes -= (size_t)put;
        offset += (uint64_t)put;
    }
    return POCK_OK;
}

/* A rename survives a power cut only once its folder is synced. */
static int sync_folder(const char *path, pock_error *error) {
    char *folder = folder_of(path);
    if (!folder) {
        return pock_fail(error, POCK_MEMORY, "out of memory");
    }
    int descriptor = open(folder, O_RDONLY | O_CLOEXEC);
    free(folder);
    /* Some file systems cannot sync a folder and say EINVAL: there is nothing more to do on those. */
    int failed = descriptor < 0 || (fsync(descriptor) != 0 && errno != EINVAL);
    int reason = errno;
    if (descriptor >= 0) {
        close(descriptor);
    }
    return failed ? cannot_write(error, path, reason) : POCK_OK;
}

int pock_output_commit(pock_output *output, pock_error *error) {
    int code = POCK_OK;
    if (fsync(output->descriptor) != 0) {
        return cannot_write(error, output->path, errno);
    }
    int closed = close(output->descriptor);
    output->descriptor = -1;
    if (closed != 0 || rename(output->temporary, output->path) != 0) {
        return cannot_write(error, output->path, errno);
    }
    free(output->temporary);
    output->temporary = NULL;
    code = sync_folder(output->path, error);
    pock_output_abandon(output);
    return code;
}

void pock_output_abandon(pock_output *output) {
    if (output->path && output->descriptor >= 0) {
        close(output->descriptor);
    }
    if (output->temporary) {
        unlink(output->temporary);
    }
    free(output->temporary);
    free(output->path);
    memset(output, 0, sizeof *output);
}

int pock_write_all(int descriptor, const char *data, size_t bytes) {
    while (bytes) {
        ssize_t put = write(descriptor, data, bytes);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return -1;
        }
        data += put;
        bytes -= (size_t)put;
    }
    return 0;
}
