/* Copies of boxes by the GPU's engine, and barriers in shared memory (PTX ISA 8.7, "cp.async.bulk.tensor" and "mbarrier"). Lines
 * of 128 bytes are written with their pieces of 16 bytes exchanged, as matrix units read them. */
#include "emulator.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_COPIES 128
#define LINE 128
#define PIECE 16
#define LINES 1024   /* bytes after which pieces lie in the same order again: a multiple of it is one in all shared memory */
#define NOTHING 0xFF /* each byte of floats that are none */

/* What lies in the eight bytes of a barrier: arrivals and bytes until the phase is over, and which phase that is. Bytes may be
 * there before they are expected. */
typedef struct {
    int32_t bytes;
    uint16_t left;
    uint8_t count, parity;
} gate;

static _Thread_local struct {
    char *to;
    pock_tensor_map map;
    uint64_t *full;
    int at[POCK_MOST_RANK];
} begun[MOST_COPIES];
static _Thread_local int copies;

static void check(int right, const char *what) {
    if (!right) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

static gate read_gate(const uint64_t *barrier) {
    gate found;
    check((uintptr_t)barrier % sizeof *barrier == 0, "a barrier does not lie at a multiple of its bytes");
    memcpy(&found, barrier, sizeof found);
    check(found.parity < 2, "a barrier was not made ready");
    return found;
}

void pock_mbarrier_init(uint64_t *barrier, int count) {
    gate fresh = {0, (uint16_t)count, (uint8_t)count, 0};
    memcpy(barrier, &fresh, sizeof fresh);
}

/* The phase is over when all have arrived and all bytes are there. */
static void write_gate(uint64_t *barrier, gate found) {
    if (!found.left && !found.bytes) {
        found.left = found.count;
        found.parity ^= 1;
    }
    memcpy(barrier, &found, sizeof found);
}

void pock_mbarrier_arrive(uint64_t *barrier, int bytes) {
    gate found = read_gate(barrier);
    check(found.left, "more threads arrive at a barrier than it waits for");
    found.bytes += bytes;
    found.left--;
    write_gate(barrier, found);
    pock_moved();
    if (!bytes) {
        pock_pause(); /* who waits for it may be quicker */
    }
}

static int box_bytes(const pock_tensor_map *map) {
    uint32_t bytes = map->itemsize;
    for (uint32_t i = 0; i < map->rank; i++) {
        bytes *= map->box[i];
    }
    return (int)bytes;
}

/* Where a byte of a box lies, in lines whose pieces are exchanged. */
static char *place(char *to, int byte) {
    uintptr_t address = (uintptr_t)(to + byte);
    return (char *)(address ^ (address / LINE % (LINES / LINE)) * PIECE);
}

/* Makes the copy; zeros where the box is beyond the tensor. */
static void copy(int which) {
    const pock_tensor_map *map = &begun[which].map;
    int bytes = box_bytes(map), itemsize = (int)map->itemsize;
    for (int byte = 0; byte < bytes; byte += itemsize) {
        uint64_t element = (uint64_t)(byte / itemsize), offset = 0;
        int inside = 1;
        for (uint32_t i = 0; i < map->rank; i++) {
            int64_t at = begun[which].at[i] + (int64_t)(element % map->box[i]);
            element /= map->box[i];
            inside = inside && at >= 0 && at < (int64_t)map->extents[i];
            offset += (uint64_t)at * (i ? map->strides[i - 1] : (uint64_t)itemsize);
        }
        if (inside) {
            memcpy(place(begun[which].to, byte), map->first + offset, (size_t)itemsize);
        } else {
            memset(place(begun[which].to, byte), 0, (size_t)itemsize);
        }
    }
}

static int seen; /* what was initialised of barriers, by the engine */

void pock_mbarriers_seen(void) {
    seen = 1;
}

void pock_tensor_copy(void *to, const pock_tensor_map *map, uint64_t *full, const int *at) {
    check(seen, "a box is asked for before the engine sees barriers that are initialised");
    check(copies < MOST_COPIES, "a block has begun too many copies");
    check((uintptr_t)to % LINE == 0 && map->box[0] * map->itemsize == LINE, "a box is not of lines, or begins within one");
    begun[copies].to = to;
    begun[copies].map = *map;
    begun[copies].full = full;
    memcpy(begun[copies++].at, at, map->rank * sizeof *at);
    memset(to, NOTHING, (size_t)box_bytes(map));
}

/* Makes the copies whose bytes a barrier counts. */
static void copy_for(uint64_t *barrier) {
    int kept = 0;
    for (int i = 0; i < copies; i++) {
        if (begun[i].full != barrier) {
            begun[kept++] = begun[i];
            continue;
        }
        copy(i);
        gate found = read_gate(barrier);
        found.bytes -= box_bytes(&begun[i].map);
        write_gate(barrier, found);
    }
    copies = kept;
}

void pock_mbarrier_wait(uint64_t *barrier, int parity) {
    while (read_gate(barrier).parity == parity) {
        copy_for(barrier);
        if (read_gate(barrier).parity == parity) {
            pock_pause();
        }
    }
    pock_engine_seen();
    pock_moved();
}

void pock_tensor_copy_both(void *to, const pock_tensor_map *map, uint64_t *full, const int *at) {
    for (int rank = 0; rank < 2; rank++) {
        pock_tensor_copy(pock_of_block(to, rank), map, pock_of_block(full, rank), at);
    }
}

void pock_tensor_copies_end(void) {
    check(!copies, "a block ends while copies to its memory are on their way");
    seen = 0;
}
