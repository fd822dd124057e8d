/* Copies to shared memory in the background. They are made as late as they may be: a kernel that forgets to wait for them
 * reads what was there before, in the same way each time. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 1024
#define MOST_COPIES 64

/* What a thread of the block has begun, the oldest first. */
typedef struct {
    struct {
        void *to;
        const void *from; /* NULL: zeros */
        int bytes, group;
    } copies[MOST_COPIES];
    int count, group;
} begun;

static _Thread_local begun *threads;

static begun *mine(void) {
    if (!threads && !(threads = calloc(MOST_THREADS, sizeof *threads))) {
        fprintf(stderr, "not enough memory for the copies of %d threads\n", MOST_THREADS);
        abort();
    }
    return &threads[pock_thread];
}

void pock_copy(int bytes, void *to, const void *from, int there) {
    begun *own = mine();
    if (own->count == MOST_COPIES || (uintptr_t)to % (uintptr_t)bytes || (uintptr_t)from % (uintptr_t)bytes) {
        fprintf(stderr, "a thread copies %d bytes from or to no multiple of them, or has begun too many copies\n", bytes);
        abort();
    }
    own->copies[own->count].to = to;
    own->copies[own->count].from = there ? from : NULL;
    own->copies[own->count].bytes = bytes;
    own->copies[own->count++].group = own->group;
}

void pock_copies_begun(void) {
    mine()->group++;
}

void pock_copies_wait(int most) {
    begun *own = mine();
    int done = 0;
    while (done < own->count && own->copies[done].group < own->group - most) {
        if (own->copies[done].from) {
            memcpy(own->copies[done].to, own->copies[done].from, (size_t)own->copies[done].bytes);
        } else {
            memset(own->copies[done].to, 0, (size_t)own->copies[done].bytes);
        }
        done++;
    }
    own->count -= done;
    memmove(own->copies, own->copies + done, (size_t)own->count * sizeof *own->copies);
}
