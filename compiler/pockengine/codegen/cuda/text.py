"""CUDA C++'s meaning of the words of GPU-C, and the C file that has all kernels' machine code and starts them."""

from __future__ import annotations

import lzma
import re
from collections.abc import Collection, Iterable, Mapping

from ...plan.program import Call
from ..gpu.hopper.units import WGMMA
from ..gpu.launches import starters
from .architecture import Architecture

_ALIGNMENT = 16
"""Of images that the driver is given, and of the instructions in them."""

PRELUDE = """\
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
#define INT64_C(x) x##L
#define UINT64_C(x) x##UL
#define INT64_MIN (-INT64_C(9223372036854775807) - 1)
#define KERNEL extern "C" __global__
#define GLOBAL
#define SHARED __shared__
#define TABLE static __constant__ const
#define OPERAND(i) char *base##i
#define AT(type, i) ((type *)base##i)
#define BLOCK ((int)blockIdx.x)
#define THREAD ((int)threadIdx.x)
#define BARRIER __syncthreads()
extern __shared__ __align__(128) char pock_pool[];
#define POOL pock_pool
template <typename To, typename From> __device__ To same_bits(From x)
{
    union { From from; To to; } u = {x};
    return u.to;
}
#define SAME_BITS(from, to, x) same_bits<to, from>(x)
template <typename T, int n> struct __align__(n * sizeof(T)) run { T of[n]; };
template <typename T, int n> __device__ void load_run(T *to, const T *from)
{
    const run<T, n> found = *(const run<T, n> *)from;
    for (int i = 0; i < n; ++i)
        to[i] = found.of[i];
}
template <typename T, int n> __device__ void store_run(T *to, const T *from)
{
    run<T, n> made;
    for (int i = 0; i < n; ++i)
        made.of[i] = from[i];
    *(run<T, n> *)to = made;
}
#define LOAD_RUN(type, n, to, from) load_run<type, n>(to, from)
#define STORE_RUN(type, n, to, from) store_run<type, n>(to, from)
template <int bytes> __device__ void copy(void *to, const void *from, int there)
{
    const uint32_t place = (uint32_t)__cvta_generic_to_shared(to);
    const int real = there ? bytes : 0;
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" : : "r"(place), "l"(from), "r"(real) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     : : "r"(place), "l"(from), "n"(bytes), "r"(real) : "memory");
}
#define COPY(bytes, to, from, there) copy<bytes>(to, from, there)
#define COPIES_BEGUN asm volatile("cp.async.commit_group;" : : : "memory")
#define COPIES_WAIT(n) asm volatile("cp.async.wait_group %0;" : : "n"(n) : "memory")
static __device__ uint32_t PACK_BF16(float a, float b)
{
    uint32_t word;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(a), "f"(b));
    return word;
}
static __device__ uint32_t PACK_F16(float a, float b)
{
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(word) : "f"(a), "f"(b));
    return word;
}
static __device__ float WIDEN_F16(uint16_t bits)
{
    float number;
    asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(bits));
    return number;
}
static __device__ uint32_t TF32(float a)
{
    uint32_t word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(a));
    return word;
}
static __device__ void FRAGMENT(uint32_t *w, const void *first, int pitch)
{
    const int lane = threadIdx.x % 32;
    const uint32_t *row = (const uint32_t *)first + lane % 16 * pitch + lane / 16 * 4;
    const uint32_t place = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(place) : "memory");
}
static __device__ void FRAGMENT_ACROSS(uint32_t *w, const void *first, int pitch)
{
    const int lane = threadIdx.x % 32;
    const uint16_t *row = (const uint16_t *)first + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8;
    const uint32_t place = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(place) : "memory");
}
#define MMA(name, shape) \\
static __device__ void name(float *s, const uint32_t *l, const uint32_t *r) \\
{ \\
    asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \\
                 : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3]) \\
                 : "r"(l[0]), "r"(l[1]), "r"(l[2]), "r"(l[3]), "r"(r[0]), "r"(r[1])); \\
}
MMA(MMA_BF16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA(MMA_F16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA(MMA_TF32, "m16n8k8.row.col.f32.tf32.tf32.f32")
static __device__ float QUAD_MAX(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, 2));
}
static __device__ float QUAD_SUM(float x)
{
    x += __shfl_xor_sync(0xFFFFFFFF, x, 1);
    return x + __shfl_xor_sync(0xFFFFFFFF, x, 2);
}
static __device__ float EXP2(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
#define __builtin_fabsf fabsf
#define __builtin_sqrtf sqrtf
#define __builtin_floorf floorf
#define __builtin_ceilf ceilf
#define __builtin_rintf rintf
#define __builtin_truncf truncf
#define __builtin_fmodf fmodf
#define __builtin_copysignf copysignf
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(x) __int_as_float(0x7fffffff)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nan(x) __longlong_as_double(0x7fffffffffffffffLL)
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


WARPGROUPS = """\
#define __builtin_fmaxf fmaxf
#define POOL_LINES (pock_pool + (-(uint32_t)__cvta_generic_to_shared(pock_pool) & 1023))
static __device__ uint64_t TILE(const void *first, int further, int on)
{
    const uint64_t place = (uint32_t)__cvta_generic_to_shared(first) & 0x3FFFF;
    return place >> 4 | (uint64_t)(further >> 4) << 16 | (uint64_t)(on >> 4) << 32 | 1ull << 62;
}
#define COPIES_SEEN asm volatile("fence.proxy.async.shared::cta;" : : : "memory")
#define WGMMA_BEGIN asm volatile("wgmma.fence.sync.aligned;" : : : "memory")
#define WGMMA_BEGUN asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory")
#define WGMMA_WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(n) : "memory")
#define TURN_WAIT(i, threads) asm volatile("bar.sync %0, %1;" : : "r"(i), "n"(threads) : "memory")
#define TURN_GIVE(i, threads) asm volatile("bar.arrive %0, %1;" : : "r"(i), "n"(threads) : "memory")
"""


ENGINE = """\
struct __align__(64) tensor_map { char opaque[128]; };
#define KERNEL_OF(threads) extern "C" __global__ __launch_bounds__(threads, 1)
#define TENSOR_MAP(name) const __grid_constant__ tensor_map name
#define KERNEL_IN_PAIRS(threads) extern "C" __global__ __cluster_dims__(2, 1, 1) __launch_bounds__(threads, 1)
#define TENSOR_COPY(to, map, full, ...) tensor_copy(to, &map, full, __VA_ARGS__)
#define TENSOR_COPY_BOTH(to, map, full, ...) tensor_copy_both(to, &map, full, __VA_ARGS__)
#define CLUSTER_BARRIER asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" : : : "memory")
static __device__ uint32_t shared_place(const void *at)
{
    return (uint32_t)__cvta_generic_to_shared(at);
}
static __device__ void MBARRIER_INIT(uint64_t *b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(shared_place(b)), "r"(count) : "memory");
}
#define MBARRIERS_SEEN \\
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" : : : "memory")
static __device__ void MBARRIER_ARRIVE(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_place(b)) : "memory");
}
static __device__ void MBARRIER_ARRIVE_AT(uint64_t *b, int rank)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                 : : "r"(shared_place(b)), "r"(rank) : "memory");
}
static __device__ void MBARRIER_EXPECT(uint64_t *b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 : : "r"(shared_place(b)), "r"(bytes) : "memory");
}
static __device__ void MBARRIER_WAIT(uint64_t *b, int parity)
{
    uint32_t over = 0;
    while (!over)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(over) : "r"(shared_place(b)), "r"(parity) : "memory");
}
#define REGISTERS_LESS(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(n))
#define REGISTERS_MORE(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(n))
"""


def prelude(text: str) -> str:
    """The words that a kernel's text has."""
    wanted = sorted(set(re.findall(WGMMA, text)))
    eights = 'MMA(MMA_E4M3, "m16n8k32.row.col.f32.e4m3.e4m3.f32")\n' if "MMA_E4M3(" in text else ""
    groups = (WARPGROUPS if wanted else "") + "".join(_wgmma(form, format, int(n)) for form, format, n in wanted)
    engine = ENGINE + "".join(map(_tensor_copy, range(2, 6))) if "TENSOR_COPY" in text else ""
    return PRELUDE + eights + groups + engine


def _tensor_copy(rank: int) -> str:
    """A copy of a box of a tensor of so many dimensions."""
    at = ", ".join(f"int c{i}" for i in range(rank))
    places, given = ", ".join(f"%{3 + i}" for i in range(rank)), ", ".join(f'"r"(c{i})' for i in range(rank))
    return f"""\
static __device__ void tensor_copy(void *to, const tensor_map *map, uint64_t *full, {at})
{{
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {{{places}}}], [%2];"
                 : : "r"(shared_place(to)), "l"(map), "r"(shared_place(full)), {given} : "memory");
}}
static __device__ void tensor_copy_both(void *to, const tensor_map *map, uint64_t *full, {at})
{{
    asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {{{places}}}], [%2], %{3 + rank};"
                 : : "r"(shared_place(to)), "l"(map), "r"(shared_place(full)), {given}, "h"((uint16_t)3) : "memory");
}}
"""


def _wgmma(form: str, format: str, columns: int) -> str:
    """A product of 64 rows and so many columns: of 32 bytes along k, where tiles of 16-bit floats may lie across."""
    count, type, held = columns // 2, format.lower(), form == "HELD_"
    bound = ", ".join(f'"{"=" if form == "NEW_" else "+"}f"(s[{i}])' for i in range(count))
    given = [*(f'"r"(a[{i}])' for i in range(4)), '"l"(b)'] if held else ['"l"(a)', '"l"(b)']
    across = [] if format == "E4M3" else ["tb"] if held else ["ta", "tb"]
    given += [f'"n"({name})' for name in across]
    places = [f"%{i}" for i in range(count + len(given))]
    left = f"{{{', '.join(places[count : count + 4])}}}" if held else places[count]
    rest = ["0" if form == "NEW_" else "1", "1", "1", *places[len(places) - len(across) :]]
    operands = f"{{{', '.join(places[:count])}}}, {left}, {places[count + (4 if held else 1)]}, {', '.join(rest)}"
    name, parameters = f"wgmma_{form.lower()}{type}_{columns}", "tb" if held else "ta, tb"
    template = ", ".join(f"int {one}" for one in parameters.split(", "))
    return f"""\
template <{template}>
static __device__ __forceinline__ void {name}(float *s, {"const uint32_t *" if held else "uint64_t "}a, uint64_t b)
{{
    asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k{32 if format == "E4M3" else 16}.f32.{type}.{type} "
                 "{operands};"
                 : {bound} : {", ".join(given)} : "memory");
}}
#define WGMMA_{form}{format}_{columns}(s, a, b, {parameters}) {name}<{parameters}>(s, a, b)
"""


def launches_c(
    calls: Collection[Call],
    images: Mapping[str, bytes],
    architecture: Architecture,
    header: str,
    measured: bool = False,
) -> str:
    """The text of kernels.c: each kernel's machine code, and the function of its name that starts it. `images` are by
    the kernels' names, in their order; `header` is the text of launch.h. `measured`: what a library may make, no kernel
    makes in its place."""
    kernels = {call.kernel.symbol: call.kernel for call in calls}
    packed, places, size = pack(images.values())
    lines = ["/* The kernels' machine code. */", header]
    lines.append("const unsigned char pock_device_packed[] =")
    lines += [f'    "{_octal(packed[at : at + 64])}"' for at in range(0, len(packed), 64)]
    lines.append("    ;")
    lines.append(f"const uint32_t pock_device_packed_bytes = {len(packed)}, pock_device_image_bytes = {size};")
    lines.append("const pock_device_kernel pock_device_kernels[] = {")
    placed = zip(images, places, strict=True)
    lines += [f'    {{"{symbol}", {place}, {kernels[symbol].shared}}},' for symbol, place in placed] or [
        "    {0, 0, 0},"
    ]
    lines.append("};")
    lines.append(f"const uint32_t pock_device_kernel_count = {len(images)};")
    major, minor, exact = architecture.major, architecture.minor, int(architecture.exact)
    lines.append(f"const int pock_capability_major = {major}, pock_capability_minor = {minor};")
    lines.append(f"const int pock_capability_exact = {exact};")
    products = sum(kernel.product is not None for kernel in kernels.values())
    lines.append(f"const uint32_t pock_products = {products};")
    lines.append(f"const int pock_products_by_library_alone = {int(measured)};")
    lines += starters(calls)
    return "\n".join(lines) + "\n"


def pack(images: Iterable[bytes]) -> tuple[bytes, list[int], int]:
    """Images one behind the other, packed as one by LZMA as `unpack.c` takes it: kernels have more in common than a
    kernel has with itself. Where each begins in what is unpacked, and how many bytes that is."""
    whole, places = bytearray(), []
    for image in images:
        places.append(len(whole))
        whole += image + bytes(-len(image) % _ALIGNMENT)
    return lzma.compress(bytes(whole), lzma.FORMAT_RAW, filters=[_packing(len(whole))]), places, len(whole)


def _packing(size: int) -> Mapping[str, int]:
    """Machine code has instructions of 16 bytes, so a byte's place among them says most about it."""
    return {"id": lzma.FILTER_LZMA1, "preset": 9, "dict_size": max(size, 4096), "lc": 0, "lp": 4, "pb": 4}


def _octal(piece: bytes) -> str:
    return "".join(f"\\{byte:03o}" for byte in piece)
