#include "rounded.h"

#include <string.h>

#include "pock.h"

#define NAN_BITS 0x7FFF
#define INFINITY_BITS 0x7F800000u

static uint16_t bf16(uint32_t bits) {
    uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7FFFFFFF) > INFINITY_BITS ? NAN_BITS : rounded);
}

/* Of a number below 2^-14, which f16 has without a leading one: added to 0.5f, it is rounded to multiples of 2^-24. */
static uint32_t small_f16(uint32_t bits) {
    float number, half = 0.5f;
    memcpy(&number, &bits, sizeof number);
    number += half;
    memcpy(&bits, &number, sizeof bits);
    return bits - 0x3F000000u;
}

static uint16_t f16(uint32_t bits) {
    uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > INFINITY_BITS) {
        return NAN_BITS;
    }
    if (size >= 0x47800000) { /* 2^16 */
        return (uint16_t)(sign | 0x7C00);
    }
    uint32_t usual = (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13;
    return (uint16_t)(sign | (size < 0x38800000 ? small_f16(size) : usual));
}

void pock_round(uint16_t *to, uint8_t dtype, const float *from, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        to[i] = dtype == POCK_BF16 ? bf16(bits) : f16(bits);
    }
}
