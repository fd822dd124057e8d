#include "platform.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tables.h"
#include "tensor_file.h"

#define HUGE_PAGE ((size_t)2 << 20)

static int out_of_memory(const pock_model *model, pock_error *error) {
    return pock_fail(error, POCK_MEMORY, "not enough memory: '%s' needs %.1f MB; compile it with a smaller batch or update",
                     model->name, (double)model->predicted_peak_bytes / 1e6);
}

#if defined(__linux__)
/* Without this check an overcommitting kernel would say yes now and kill the process later, without a sentence. */
static int fits_in_free_memory(const pock_model *model, uint64_t needed, pock_error *error) {
    char line[128];
    unsigned long long kilobytes = 0;
    uint64_t available = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file) {
        return POCK_OK;
    }
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %llu", &kilobytes) == 1 || sscanf(line, "SwapFree: %llu", &kilobytes) == 1) {
            available += kilobytes * 1024;
        }
    }
    fclose(file);
    return available && needed > available ? out_of_memory(model, error) : POCK_OK;
}
#else
static int fits_in_free_memory(const pock_model *model, uint64_t needed, pock_error *error) {
    (void)model;
    (void)needed;
    (void)error;
    return POCK_OK;
}
#endif

/* Blocks start on pages, which is aligned for every model; big ones at a huge page's boundary, so that walking them costs
 * few page-table lookups. */
static char *map_block(size_t bytes, size_t *mapped) {
    size_t extra = bytes >= 2 * HUGE_PAGE ? HUGE_PAGE : 0;
    char *start = mmap(NULL, bytes + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (start == MAP_FAILED) {
        return NULL;
    }
    size_t lead = extra ? (HUGE_PAGE - (size_t)start % HUGE_PAGE) % HUGE_PAGE : 0;
    if (lead) {
        munmap(start, lead);
    }
    if (extra > lead) {
        munmap(start + lead + bytes, extra - lead);
    }
#if defined(MADV_HUGEPAGE)
    if (extra) {
        madvise(start + lead, bytes, MADV_HUGEPAGE);
    }
#endif
    *mapped = bytes;
    return start + lead;
}

static int map_spaces(pock_machine *machine, pock_error *error) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t needed = 0;
    for (int space = 0; space < POCK_SPACES; space++) {
        needed += machine->model->space_bytes[space];
    }
    int code = needed > SIZE_MAX / 2 ? out_of_memory(machine->model, error)
                                     : fits_in_free_memory(machine->model, needed, error);
    for (int space = 0; space < POCK_SPACES && !code; space++) {
        size_t bytes = ((size_t)machine->model->space_bytes[space] + page) / page * page;
        machine->space[space] = map_block(bytes, &machine->mapped[space]);
        code = machine->space[space] ? POCK_OK : out_of_memory(machine->model, error);
    }
    machine->own_inputs = machine->space[POCK_INPUT];
    return code;
}

static int read_all(pock_machine *machine, const char *path, const pock_tensor *tensors, uint32_t count,
                    pock_error *error) {
    pock_tensor_file file = {0};
    int code = pock_tensor_file_open(&file, path, error);
    for (uint32_t i = 0; i < count && !code; i++) {
        if (pock_stays_in_file(&tensors[i])) {
            continue;
        }
        const pock_stored *stored = pock_tensor_file_find(&file, tensors[i].name);
        if (!stored) {
            code = pock_fail(error, POCK_BAD_DATA, "%s lacks '%s'%s", path, tensors[i].name,
                             pock_nearest(tensors[i].name, pock_stored_at, file.tensors, file.count).text);
        } else {
            code = pock_tensor_file_read(&file, stored, &tensors[i], pock_machine_at(machine, &tensors[i]), error);
        }
    }
    pock_tensor_file_close(&file);
    return code;
}

static int64_t count_of(const pock_loop *loops) {
    return loops[0].extent * loops[1].extent * loops[2].extent;
}

static int64_t offset_of(const pock_loop *loops, int64_t index) {
    int64_t offset = index % loops[2].extent * loops[2].stride;
    index /= loops[2].extent;
    return offset + index % loops[1].extent * loops[1].stride + index / loops[1].extent * loops[0].stride;
}

/* Walks the panels of a packed tensor in order: packs what `from` has in the original order, or undoes it. */
static void permute(const pock_packing *packing, const float *from, float *to, int undo) {
    int64_t n_count = count_of(packing->n), k_count = count_of(packing->k), at = 0;
    for (int64_t b = 0; b < count_of(packing->b); b++) {
        for (int64_t first = 0; first < n_count; first += packing->columns) {
            int64_t last = first + packing->columns < n_count ? first + packing->columns : n_count;
            for (int64_t k = 0; k < k_count; k++) {
                int64_t base = offset_of(packing->b, b) + offset_of(packing->k, k);
                for (int64_t n = first; n < last; n++, at++) {
                    int64_t original = base + offset_of(packing->n, n);
                    to[undo ? original : at] = from[undo ? at : original];
                }
            }
        }
    }
}

/* Through the arena, which holds nothing between runs. */
static void arrange(const pock_machine *machine, const pock_tensor *tensor, int undo) {
    if (tensor->packing) {
        void *data = pock_machine_at(machine, tensor);
        permute(tensor->packing, data, (float *)(void *)machine->space[POCK_ARENA], undo);
        memcpy(data, machine->space[POCK_ARENA], (size_t)tensor->nbytes);
    }
}

void pock_machine_unpack(const pock_machine *machine, const pock_tensor *tensor) {
    arrange(machine, tensor, 1);
}

void pock_machine_pack(const pock_machine *machine, const pock_tensor *tensor) {
    arrange(machine, tensor, 0);
}

static int choose_threads(pock_machine *machine, uint32_t asked, pock_error *error) {
    uint32_t most = machine->model->threads ? machine->model->threads : 1;
    if (asked > most) {
        return pock_fail(error, POCK_USAGE, "%u threads are too many: this model was compiled for at most %u", asked, most);
    }
    uint32_t cores = pock_cores();
    machine->threads = asked ? asked : (cores < most ? cores : most);
    return POCK_OK;
}

int pock_machine_open(pock_machine *machine, const pock_model *model, const char *params_path, const char *consts_path,
                      uint32_t threads, pock_error *error) {
    machine->model = model;
    int code = choose_threads(machine, threads, error);
    code = code ? code : map_spaces(machine, error);
    code = code ? code : read_all(machine, params_path, model->params, model->param_count, error);
    code = code ? code : pock_tables_open(machine, params_path, error);
    if (model->const_count) {
        code = code ? code : read_all(machine, consts_path, model->consts, model->const_count, error);
    }
    if (!code) {
        for (uint32_t i = 0; i < model->param_count; i++) {
            pock_machine_pack(machine, &model->params[i]);
        }
        pock_init_states(model, machine->space);
        code = pock_pool_open(&machine->pool, machine->threads, error);
    }
    code = code ? code : pock_device_open(&machine->device, model, machine->space, machine->mapped, error);
    return code;
}

void pock_machine_close(pock_machine *machine) {
    pock_device_close(machine->device);
    pock_pool_close(machine->pool);
    pock_tables_close(machine);
    machine->space[POCK_INPUT] = machine->own_inputs;
    for (int space = 0; space < POCK_SPACES; space++) {
        if (machine->space[space]) {
            munmap(machine->space[space], machine->mapped[space]);
        }
    }
    memset(machine, 0, sizeof *machine);
}

const pock_tensor *pock_machine_averaged(const pock_machine *machine, const pock_tensor *param) {
    const pock_model *model = machine->model;
    for (uint32_t i = 0; i < model->state_count; i++) {
        if (model->states[i].average_of == param) {
            return &model->states[i];
        }
    }
    return param;
}

int pock_machine_run(pock_machine *machine, const pock_program *program, pock_observer observer, void *context,
                     pock_error *error) {
    int code = pock_machine_begin(machine, program, observer, context, error);
    return code ? code : pock_machine_end(machine, error);
}

int pock_machine_begin(pock_machine *machine, const pock_program *program, pock_observer observer, void *context,
                       pock_error *error) {
    int code = machine->ahead ? POCK_OK : pock_tables_fetch(machine, error);
    machine->ahead = 0;
    if (!code) {
        if (pock_device_begin(machine->device, program, observer != NULL)) {
            pock_run(program, machine->space, machine->pool ? pock_pool_run : NULL, machine->pool, observer, context);
        }
        pock_device_start(machine->device, program);
    }
    return code;
}

int pock_machine_end(pock_machine *machine, pock_error *error) {
    return pock_device_end(machine->device, error);
}

int pock_machine_turn(pock_machine *machine) {
    char *inputs = pock_device_turn(machine->device);
    machine->space[POCK_INPUT] = inputs ? inputs : machine->space[POCK_INPUT];
    return inputs != NULL;
}

int pock_machine_ahead(pock_machine *machine, pock_error *error) {
    int code = pock_tables_fetch(machine, error);
    if (!code) {
        pock_device_ahead(machine->device);
        machine->ahead = 1;
    }
    return code;
}

void pock_machine_forget(pock_machine *machine) {
    if (machine->ahead) {
        pock_device_forget(machine->device);
        machine->ahead = 0;
    }
}

int pock_machine_fetch(const pock_machine *machine, pock_error *error) {
    return pock_device_fetch(machine->device, error);
}

void pock_machine_changed(const pock_machine *machine) {
    pock_device_changed(machine->device);
}

int pock_machine_read(const pock_machine *machine, const pock_tensor *tensor, void *data, size_t bytes, uint64_t offset,
                      pock_error *error) {
    if (pock_stays_in_file(tensor)) {
        return pock_table_read(machine, tensor, data, bytes, offset, error);
    }
    memcpy(data, (const char *)pock_machine_at(machine, tensor) + (size_t)offset, bytes);
    return POCK_OK;
}

void *pock_machine_at(const pock_machine *machine, const pock_tensor *tensor) {
    return machine->space[tensor->ref.space] + (size_t)tensor->ref.offset;
}

const pock_tensor *pock_program_output(const pock_program *program, const char *name) {
    for (uint32_t i = 0; i < program->output_count; i++) {
        if (strcmp(program->outputs[i].name, name) == 0) {
            return &program->outputs[i];
        }
    }
    return NULL;
}

uint32_t pock_micro_batches(const pock_model *model) {
    return model->accumulate ? model->accumulate_steps : 1;
}
