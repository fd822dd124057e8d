/* Unpacks what LZMA packed. */
#ifndef POCK_UNPACK_H
#define POCK_UNPACK_H

#include <stddef.h>

/* A raw LZMA stream (the first kind) with lc = 0, lp = 4, pb = 4, whose dictionary is all that was unpacked. */
#define POCK_UNPACK_SPACE ((size_t)32 << 10)

/* Whether `from_bytes` at `from` unpack to `to_bytes`, which are then at `to`. `space` has POCK_UNPACK_SPACE bytes, aligned
 * for any type. Reads and writes nothing else, and ends after at most `to_bytes` symbols. */
int pock_unpack(unsigned char *to, size_t to_bytes, const unsigned char *from, size_t from_bytes, void *space);

#endif
