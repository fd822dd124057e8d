#include "order.h"

#define ROUNDS 8

/* splitmix64's finaliser (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t value) {
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
        uint64_t next = left ^ (mix(right ^ mix(key + round)) & mask);
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
    uint64_t key = mix(order->seed ^ mix(epoch));
    do {
        index = feistel(index, key, half_bits);
    } while (index >= order->samples);
    return index;
}
