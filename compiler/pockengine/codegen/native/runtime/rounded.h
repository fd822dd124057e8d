/* f32 numbers rounded to 16 bits as processors with matrix units do it: to the nearest, to the even one in the middle. */
#ifndef POCK_ROUNDED_H
#define POCK_ROUNDED_H

#include <stddef.h>
#include <stdint.h>

/* `dtype` is POCK_BF16 or POCK_F16. */
void pock_round(uint16_t *to, uint8_t dtype, const float *from, size_t count);

#endif
