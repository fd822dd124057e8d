#include "feed.h"

static int is_same(const pock_batch *a, const pock_batch *b) {
    return a->dataset == b->dataset && a->order.samples == b->order.samples && a->order.seed == b->order.seed &&
           a->order.shuffle == b->order.shuffle && a->rows.position == b->rows.position && a->rows.last == b->rows.last;
}

static int fill(const pock_machine *machine, const pock_batch *batch, pock_error *error) {
    return pock_dataset_fill(batch->dataset, machine, &batch->order, batch->rows, error);
}

int pock_feed(pock_machine *machine, const pock_batch *ahead, const pock_batch *batch, pock_error *error) {
    if (machine->ahead && is_same(ahead, batch)) {
        return POCK_OK;
    }
    pock_machine_forget(machine);
    return fill(machine, batch, error);
}

void pock_feed_ahead(pock_machine *machine, pock_batch *ahead, const pock_batch *batch) {
    pock_error later = {0};
    if (pock_machine_turn(machine) && fill(machine, batch, &later) == POCK_OK) {
        (void)pock_machine_ahead(machine, &later);
        *ahead = *batch;
    }
}
