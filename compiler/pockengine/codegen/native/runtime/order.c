#include "order.h"

#include "pock.h"

#define ROUNDS 8

/* splitmix64's finaliser (Steele, Lea, Flood 2014). */
uint64_t pock_mix(uint64_t value) {
    value += 0x9E3779B97F4A7C15u;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

/* A Feistel network: a permutation of the numbers of 2 * half_bits bits, whatever the round function is. */
static uint64_t feistel(uint64_t value, uint64_t key, unsigned half_bits) {
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = value >> half_bits;
    uint64_t right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t next = left ^ (pock_mix(right ^ pock_mix(key + round)) & mask);
        left = right;
        right = next;
    }
    return (left << half_bits) | right;
}

/* Permutes 0..samples-1 in constant memory: applies a permutation of the next even power of two until the result is in
 * range (cycle walking, Black and Rogaway 2002), fewer than four times on average. */
uint64_t pock_order_at(const pock_order *order, uint64_t position) {
    uint64_t epoch = position / order->samples;
    uint64_t index = position % order->samples;
    unsigned half_bits = 1;
    if (!order->shuffle) {
        return index;
    }
    while (half_bits < 32 && ((uint64_t)1 << (2 * half_bits)) < order->samples) {
        half_bits++;
    }
    uint64_t key = pock_mix(order->seed ^ pock_mix(epoch));
    do {
        index = feistel(index, key, half_bits);
    } while (index >= order->samples);
    return index;
}

uint64_t pock_stream_step_samples(const pock_stream *stream) {
    return (uint64_t)stream->batch * stream->micro_batches;
}

/* Steps of one epoch, where each begins with an epoch's first sample. */
static uint64_t steps_of_epoch(const pock_stream *stream) {
    uint64_t step = pock_stream_step_samples(stream);
    uint64_t whole = stream->order.samples / step;
    return stream->last_batch == POCK_PARTIAL && stream->order.samples % step ? whole + 1 : whole;
}

int pock_stream_possible(const pock_stream *stream) {
    return stream->last_batch == POCK_WRAP || steps_of_epoch(stream) > 0;
}

pock_rows pock_stream_rows(const pock_stream *stream, uint64_t step, uint32_t micro_batch) {
    uint64_t within = (uint64_t)micro_batch * stream->batch;
    if (stream->last_batch == POCK_WRAP) {
        return (pock_rows){step * pock_stream_step_samples(stream) + within, UINT64_MAX};
    }
    uint64_t steps = steps_of_epoch(stream);
    uint64_t first = step / steps * stream->order.samples;
    return (pock_rows){first + step % steps * pock_stream_step_samples(stream) + within, first + stream->order.samples - 1};
}

uint64_t pock_stream_epoch(const pock_stream *stream, uint64_t step) {
    return pock_stream_rows(stream, step, 0).position / stream->order.samples;
}

int pock_stream_ends_epoch(const pock_stream *stream, uint64_t step) {
    return pock_stream_epoch(stream, step + 1) > pock_stream_epoch(stream, step);
}

uint64_t pock_stream_steps(const pock_stream *stream, uint64_t epochs) {
    uint64_t each = stream->last_batch == POCK_WRAP ? stream->order.samples : steps_of_epoch(stream);
    uint64_t total = 0;
    if (__builtin_mul_overflow(epochs, each, &total) || total > INT64_MAX) {
        return 0;
    }
    uint64_t step = pock_stream_step_samples(stream);
    return stream->last_batch == POCK_WRAP ? (total + step - 1) / step : total;
}
