"""C's meaning of the words of GPU-C, for a processor that runs the threads of each block by turns."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...plan.program import Call, Grid, Kernel, Map, TensorMap
from ..gpu.hopper.units import WGMMA
from ..gpu.launches import grids_of, lists_of

PRELUDE = """\
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#pragma clang diagnostic ignored "-Wunused"
#pragma clang diagnostic ignored "-Wtautological-compare"
#define KERNEL static
#define GLOBAL
#define SHARED static _Thread_local
#define TABLE static const
#define OPERAND(i) char *base##i
#define AT(type, i) ((type *)(void *)base##i)
#define BLOCK pock_block
#define THREAD pock_thread
#define BARRIER pock_barrier()
#define POOL pock_pool
#define SAME_BITS(from, to, x) (((union { from f; to t; }){x}).t)
#define pow powf
#define COPY(bytes, to, from, there) pock_copy(bytes, to, from, there)
#define COPIES_BEGUN pock_copies_begun()
#define COPIES_WAIT(n) pock_copies_wait(n)
#define LOAD_RUN(type, n, to, from) pock_copy_run(to, from, from, (n) * sizeof(type))
#define STORE_RUN(type, n, to, from) pock_copy_run(to, from, to, (n) * sizeof(type))
#define PACK_BF16(a, b) pock_pack_bf16(a, b)
#define PACK_F16(a, b) pock_pack_f16(a, b)
#define WIDEN_F16(bits) pock_number_of(bits, POCK_MATRIX_F16)
#define TF32(a) pock_tf32(a)
#define FRAGMENT(w, first, pitch) pock_fragment(w, first, pitch)
#define FRAGMENT_ACROSS(w, first, pitch) pock_fragment_across(w, first, pitch)
#define QUAD_MAX(x) pock_quad(x, 1)
#define QUAD_SUM(x) pock_quad(x, 0)
#define EXP2(x) exp2f(x)
#define POOL_LINES pock_pool_lines()
#define TILE(first, further, on) pock_tile(first, further, on)
#define COPIES_SEEN pock_copies_seen()
#define WGMMA_BEGIN pock_group_begin()
#define WGMMA_BEGUN pock_group_begun()
#define WGMMA_WAIT(n) pock_group_wait(n)
#define TURN_WAIT(i, threads) pock_turn(i, threads, 1)
#define TURN_GIVE(i, threads) pock_turn(i, threads, 0)
#define KERNEL_OF(threads) static
#define KERNEL_IN_PAIRS(threads) static
#define CLUSTER_BARRIER pock_cluster_barrier()
#define TENSOR_COPY_BOTH(to, map, full, ...) pock_tensor_copy_both(to, map, full, (const int[]){__VA_ARGS__})
#define MBARRIER_ARRIVE_AT(b, rank) pock_mbarrier_arrive(pock_of_block(b, rank), 0)
#define TENSOR_MAP(name) const pock_tensor_map *name
#define TENSOR_COPY(to, map, full, ...) pock_tensor_copy(to, map, full, (const int[]){__VA_ARGS__})
#define TEXELS(i) const pock_texels *texels##i
#define TEXEL(i, at, to) pock_texel(texels##i, at, to)
#define MBARRIER_INIT(b, count) pock_mbarrier_init(b, count)
#define MBARRIERS_SEEN pock_mbarriers_seen()
#define MBARRIER_ARRIVE(b) pock_mbarrier_arrive(b, 0)
#define MBARRIER_EXPECT(b, bytes) pock_mbarrier_arrive(b, bytes)
#define MBARRIER_WAIT(b, parity) pock_mbarrier_wait(b, parity)
#define REGISTERS_LESS(n) _Static_assert((n) % 8 == 0 && (n) >= 24 && (n) <= 256, "setmaxnreg gives no such number")
#define REGISTERS_MORE(n) REGISTERS_LESS(n)
#define MMA_E4M3(s, l, r) pock_multiply(s, l, r, POCK_MATRIX_E4M3)
#define MMA_BF16(s, l, r) pock_multiply(s, l, r, POCK_MATRIX_BF16)
#define MMA_F16(s, l, r) pock_multiply(s, l, r, POCK_MATRIX_F16)
#define MMA_TF32(s, l, r) pock_multiply(s, l, r, POCK_MATRIX_TF32)
"""


def units_of(calls: Iterable[Call], header: str) -> dict[str, str]:
    """Symbol -> C of each kernel, and of the function of its name that a model's tables call. `header` is the text of
    emulator.h."""
    calls = list(calls)
    kernels, grids = {call.kernel.symbol: call.kernel for call in calls}, grids_of(calls)
    return {symbol: _unit(kernels[symbol], header, *grids[symbol]) for symbol in sorted(kernels)}


def _unit(kernel: Kernel, header: str, grid: Grid, operands: int) -> str:
    symbol, text = kernel.symbol, kernel.source
    products = "".join(_wgmma(*one) for one in sorted(set(re.findall(WGMMA, text))))
    waits = re.search(r"\b(BARRIER|QUAD_MAX|QUAD_SUM|WGMMA_WAIT)\b", text) is not None
    cluster = 2 if "KERNEL_IN_PAIRS" in text else int(waits)
    arguments = ", ".join([*(f"arg[{i}]" for i in range(operands)), *(f"&map{i}" for i in range(len(kernel.maps)))])
    maps = "\n".join(f"    const {_map(one, f'map{i}')};" for i, one in enumerate(kernel.maps))
    return f"""\
{header}
{PRELUDE}{products}
#define {symbol} kernel
{text}
#undef {symbol}
static void body(void *const *arg)
{{
{maps}
    kernel({arguments});
}}

void {symbol}(void *const *arg, int task, int tasks)
{{
    (void)task, (void)tasks;
    pock_emulate(body, arg, {grid.blocks}, {grid.threads}, {cluster}, {kernel.shared});
}}
"""


def _wgmma(form: str, format: str, columns: str) -> str:
    """A word that begins products."""
    held = form == "HELD_"
    left = ".held = a, .right_across = tb" if held else ".left = a, .left_across = ta, .right_across = tb"
    said = f"{left}, .columns = {columns}, .format = POCK_MATRIX_{format}, .anew = {int(form == 'NEW_')}"
    parameters = f"s, a, b, {'tb' if held else 'ta, tb'}"
    asked = f"(pock_products){{.sums = s, .right = b, {said}}}"
    return f"#define WGMMA_{form}{format}_{columns}({parameters}) pock_group_multiply(&{asked})\n"


def _map(of: Map, name: str) -> str:
    """C's declaration of what it says, of the operands `arg`."""
    if not isinstance(of, TensorMap):
        return f"pock_texels {name} = {{(const char *)arg[{of.operand}], {of.count}}}"
    begins = f"(const char *)arg[{of.operand}] + {of.offset}"
    return f"pock_tensor_map {name} = {{{begins}, {lists_of(of)}, {len(of.extents)}, {of.itemsize}}}"
