/* Included first by every hosted source: asks the C library for POSIX and little more. */
#ifndef POCK_PLATFORM_H
#define POCK_PLATFORM_H

#if defined(__APPLE__)
#define _DARWIN_C_SOURCE
#else
#define _GNU_SOURCE
#endif

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the file formats are little-endian, and so must the machine be"
#endif

#endif
