"""OpenCL C's meaning of the words of GPU-C, and the C file that has all kernels as text and starts them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ...plan.program import Call
from ...plan.space import Space
from ..gpu.launches import TexelBlocks, kernels_of, number_of, starters

PRELUDE = """\
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
#define INT64_C(x) x##L
#define UINT64_C(x) x##UL
#define INT64_MIN LONG_MIN
static uint bf16_bits(float a)
{
    return isnan(a) ? 0x7FFF : (as_uint(a) + 0x7FFF + (as_uint(a) >> 16 & 1)) >> 16;
}
static uint f16_bits(float a)
{
    ushort bits;
    vstore_half_rte(a, 0, (half *)&bits);
    return bits;
}
static float WIDEN_F16(ushort bits)
{
    return vload_half(0, (const half *)&bits);
}
#define IMAGE_TEXELS(i) read_only image1d_buffer_t texels##i, const long texel##i
#define IMAGE_TEXEL(i, at, to) vstore4(read_imageui(texels##i, (int)(texel##i + (at))), 0, to)
#define BUFFER_TEXELS(i) global const uint *texels##i, const long texel##i
#define BUFFER_TEXEL(i, at, to) vstore4(vload4(texel##i + (at), texels##i), 0, to)
#define TEXELS(i) TEXELS_##i(i)
#define TEXEL(i, at, to) TEXEL_##i(i, at, to)
#define PACK_BF16(a, b) (bf16_bits(a) | bf16_bits(b) << 16)
#define PACK_F16(a, b) (f16_bits(a) | f16_bits(b) << 16)
#define half pock_half
#define KERNEL kernel
#define GLOBAL global
#define SHARED local
#define TABLE constant
#define OPERAND(i) global char *base##i, const long at##i
#define AT(type, i) ((type *)(base##i + at##i))
#define BLOCK ((int)get_group_id(0))
#define THREAD ((int)get_local_id(0))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define LOAD_RUN(type, n, to, from) for (int run = 0; run < (n); ++run) (to)[run] = (from)[run]
#define STORE_RUN(type, n, to, from) LOAD_RUN(type, n, to, from)
#define SAME_BITS(from, to, x) (((union { from f; to t; }){x}).t)
#define __builtin_fabsf fabs
#define __builtin_sqrtf sqrt
#define __builtin_floorf floor
#define __builtin_ceilf ceil
#define __builtin_rintf rint
#define __builtin_truncf trunc
#define __builtin_fmodf fmod
#define __builtin_copysignf copysign
#define __builtin_inff() INFINITY
#define __builtin_nanf(x) NAN
"""

DOUBLE = """\
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define __builtin_inf() ((double)INFINITY)
#define __builtin_nan(x) ((double)NAN)
#define __builtin_fabs fabs
#define __builtin_sqrt sqrt
#define __builtin_floor floor
#define __builtin_ceil ceil
#define __builtin_rint rint
#define __builtin_fmod fmod
#define __builtin_exp exp
#define __builtin_log log
#define __builtin_tanh tanh
#define __builtin_erf erf
#define __builtin_sin sin
#define __builtin_cos cos
#define __builtin_pow pow
#define __builtin_atan atan
#define __builtin_expm1 expm1
#define __builtin_log1p log1p
#define __builtin_lgamma lgamma
"""

_PLAIN = str.maketrans({"\\": "\\\\", '"': '\\"', "?": "\\?"})


def text_of(kernels: Mapping[str, str], blocks: TexelBlocks) -> list[str]:
    """OpenCL C of kernels, in pieces."""
    texts = [
        "".join(_read_as(index, block) for index, block in enumerate(blocks.get(symbol, ()))) + text
        for symbol, text in kernels.items()
    ]
    return [PRELUDE, *([DOUBLE] if _needs_double(kernels) else []), *texts]


def _read_as(index: int, block: Space | None) -> str:
    """The next kernel reads its texels of such an index as an image, where there is one of the block, else as a
    buffer."""
    lines = [f"#undef TEXELS_{index}", f"#undef TEXEL_{index}"]
    lines.append(f"#ifdef POCK_IMAGES_{number_of(block)}" if block is not None else "#if 0")
    lines += [f"#define TEXELS_{index} IMAGE_TEXELS", f"#define TEXEL_{index} IMAGE_TEXEL", "#else"]
    lines += [f"#define TEXELS_{index} BUFFER_TEXELS", f"#define TEXEL_{index} BUFFER_TEXEL", "#endif"]
    return "\n".join(lines) + "\n"


def _needs_double(kernels: Mapping[str, str]) -> bool:
    return any(re.search(r"\bdouble\b", text) for text in kernels.values())


def launches_c(calls: Collection[Call], header: str, blocks: TexelBlocks) -> str:
    """The text of kernels.c: the kernels' texts and names, and for each a function that the model's tables name, which
    starts it. `header` is the text of launch.h, `blocks` where what kernels read as images lies."""
    kernels = kernels_of(calls)
    pieces = text_of(kernels, blocks)
    lines = ["/* The kernels, for the device's own compiler. */", header]
    lines.append("const char *const pock_kernel_texts[] = {")
    for piece in pieces:
        lines += [f'    "{line.translate(_PLAIN)}\\n"' for line in piece.splitlines()]
        lines.append("    ,")
    lines.append("};")
    lines.append(f"const uint32_t pock_kernel_text_count = {len(pieces)};")
    read = {block for found in blocks.values() for block in found if block is not None}
    lines.append(f"const uint32_t pock_image_blocks = {sum(1 << number_of(block) for block in read)};")
    lines.append(f"const int pock_kernels_need_double = {int(_needs_double(kernels))};")
    lines.append("const char *const pock_kernel_names[] = {")
    lines += [f'    "{symbol}",' for symbol in kernels] or ["    0,"]
    lines.append("};")
    lines.append(f"const uint32_t pock_kernel_count = {len(kernels)};")
    lines += starters(calls, blocks)
    return "\n".join(lines) + "\n"
