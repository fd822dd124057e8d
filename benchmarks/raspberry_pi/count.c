/* A plugin of qemu-user: how often each translation block ran. At the end it writes one line a block to the file named
 * by its argument `out`: address, instructions, times executed. Counts are exact for one thread.
 *
 *     qemu-aarch64 -plugin libcount.so,out=FILE PROGRAM ...
 *
 * Debian packages no header of the interface, so what is used of it is declared here: docs/devel/tcg-plugins.rst of
 * QEMU. Of these functions versions 1 to 4 of the interface say the same. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
enum { NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*callback)(qemu_plugin_id_t id, struct qemu_plugin_tb *block));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
                                          void (*callback)(unsigned int cpu, void *data), int registers, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*callback)(qemu_plugin_id_t id, void *data), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);

EXPORT int qemu_plugin_version = INTERFACE_VERSION;

typedef struct counted {
    uint64_t address, instructions, executed;
    struct counted *next;
} counted;

static counted *blocks; /* one a translation: a block that is translated again appears again */
static const char *out;

static void executed(unsigned int cpu, void *data) {
    (void)cpu;
    ++((counted *)data)->executed;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    counted *made = malloc(sizeof *made);
    if (!made) {
        abort();
    }
    *made = (counted){qemu_plugin_tb_vaddr(block), qemu_plugin_tb_n_insns(block), 0, blocks};
    blocks = made;
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, NO_REGISTERS, made);
}

static void finished(qemu_plugin_id_t id, void *data) {
    (void)id;
    (void)data;
    FILE *file = fopen(out, "w");
    if (!file) {
        perror(out);
        return;
    }
    for (const counted *one = blocks; one; one = one->next) {
        fprintf(file, "%llx %llu %llu\n", (unsigned long long)one->address, (unsigned long long)one->instructions,
                (unsigned long long)one->executed);
    }
    fclose(file);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    if (argc != 1 || strncmp(argv[0], "out=", 4) != 0) {
        fprintf(stderr, "give the plugin out=FILE\n");
        return 1;
    }
    out = strdup(argv[0] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
