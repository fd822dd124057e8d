/* Loaded into the fake phone's shell: an executable for aarch64 that it starts is run by qemu, as the phone's processor
   would run it. The emulator's own memory comes on top of what the program may have. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

extern char **environ;

static int is_aarch64(const char *path) {
    unsigned char head[20] = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t count = read(file, head, sizeof head);
    close(file);
    return count == sizeof head && head[0] == 0x7f && head[1] == 'E' && head[18] == 183 && head[19] == 0;
}

int execve(const char *path, char *const arguments[], char *const environment[]) {
    int (*next)(const char *, char *const[], char *const[]) = dlsym(RTLD_NEXT, "execve");
    if (!is_aarch64(path)) return next(path, arguments, environment);
    size_t count = 0;
    while (arguments[count]) count++;
    char **extended = calloc(count + 2, sizeof *extended);
    extended[0] = (char *)QEMU;
    extended[1] = (char *)path;
    for (size_t i = 1; i < count; i++) extended[i + 1] = arguments[i];
    return next(QEMU, extended, environment);
}

int execvp(const char *file, char *const arguments[]) {
    int (*next)(const char *, char *const[]) = dlsym(RTLD_NEXT, "execvp");
    return is_aarch64(file) ? execve(file, arguments, environ) : next(file, arguments);
}

static struct rlimit raised(int kind, const struct rlimit *limit) {
    struct rlimit more = *limit;
    if (kind == RLIMIT_DATA && more.rlim_max < (rlim_t)1 << 40) more.rlim_cur = more.rlim_max = more.rlim_max + (1 << 30);
    return more;
}

int setrlimit(__rlimit_resource_t kind, const struct rlimit *limit) {
    int (*next)(int, const struct rlimit *) = dlsym(RTLD_NEXT, "setrlimit");
    struct rlimit more = raised(kind, limit);
    return next(kind, &more);
}

int setrlimit64(__rlimit_resource_t kind, const struct rlimit64 *limit) {
    return setrlimit(kind, (const struct rlimit *)limit);
}
