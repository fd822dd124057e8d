"""Kernels as GPU-C text: operands, the threads' shares of the work, names by content.

A kernel is started as `blocks` of `threads` each. It has C's statements and these words, which a language defines:

    KERNEL              a function that the host starts
    GLOBAL, SHARED      in which memory a pointer points: the device's, or a block's own
    OPERAND(i)          the parameters of operand i: where its memory begins, and the bytes from there
    AT(type, i)         operand i as a pointer to a type
    BLOCK, THREAD       which block of the launch, which thread of the block
    TABLE               a constant array of the program
    SAME_BITS(a, b, x)  the bits of x, of type a, as a number of type b
    LOAD_RUN(type, n, to, from)
                        n neighbours in memory, at most 16 bytes, the first at a multiple of their bytes; STORE_RUN
                        likewise
    PACK_BF16(a, b)     two f32 as the word of two bf16, `a` in the low half; PACK_F16 likewise
    WIDEN_F16(bits)     the f32 of an f16's bits
    POOL                shared memory that a launch gives the block (`Kernel.shared` bytes), from a multiple of 128 on
    BARRIER             all threads of the block wait here, and see what others wrote
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from ...ir import Node, TensorType
from ...plan.program import Call, Grid, Kernel, Map
from ...targets import Gpu
from ..common.lines import Lines
from ..common.region import bytes_of, flops_of
from .dialect import GPU_C

SYMBOL = "POCK_KERNEL"
"""Stands for the kernel's name until its source is complete and can be hashed."""
THREADS = 256
"""Of a block, where nothing else is wanted: every device has as many."""
_RUNS, _RUN_BYTES = (8, 4, 2), 16
_BUSY = 1024
"""Threads of a multiprocessor, half of what it has at a time, that hide the wait for memory."""
MOST_OPERANDS = 60
"""Of one kernel: a device must only take 1 KiB of arguments."""


class Code(Lines):
    """Lines of GPU-C."""

    @contextmanager
    def loop(self, index: str, count: object, start: object = 0, step: object = 1) -> Iterator[None]:
        """`for (ptrdiff_t index = start; index < count; index += step)`."""
        with self.block(f"for (ptrdiff_t {index} = {start}; {index} < {count}; {index} += {step})"):
            yield

    @contextmanager
    def each(self, index: str, count: int, run: int = 1) -> Iterator[None]:
        """What a thread does for its one of `count` elements, whose number is `index`; or for a run of neighbours, of
        which that is the first."""
        own = f"(ptrdiff_t)BLOCK * {THREADS} + THREAD"
        self.line(f"const ptrdiff_t {index} = {own if run == 1 else f'({own}) * {run}'};")
        with self.block(f"if ({index} < {count})"):
            yield

    @contextmanager
    def neighbours(self, index: str, run: int) -> Iterator[None]:
        """What is done for each of a run."""
        self.line("#pragma unroll")
        with self.block(f"for (int {index} = 0; {index} < {run}; ++{index})"):
            yield


Operands = Sequence[tuple[str, TensorType, bool]]
"""(name, type, written) of each operand, in order."""


@contextmanager
def kernel_body(code: Code, operands: Operands, word: str = "KERNEL", more: Sequence[str] = ()) -> Iterator[None]:
    """The kernel's function, with one typed pointer for each operand, and `more` parameters."""
    parameters = ", ".join([*(f"OPERAND({i})" for i in range(len(operands))), *more])
    with code.block(f"{word} void {SYMBOL}({parameters})"):
        for index, (name, type, written) in enumerate(operands):
            pointed = f"{'' if written else 'const '}{GPU_C.type(type.dtype)}"
            code.line(f"GLOBAL {pointed} *const {name} = AT(GLOBAL {pointed}, {index}); /* {type} */")
        yield


def operands_of(node: Node) -> Operands:
    """The node's inputs as `in0`, …, and its outputs as `out0`, …"""
    inputs = [(f"in{i}", value.type, False) for i, value in enumerate(node.inputs)]
    return [*inputs, *((f"out{i}", value.type, True) for i, value in enumerate(node.outputs))]


def blocks_of(count: int, threads: int = THREADS) -> int:
    """Blocks in which each of `count` elements has a thread."""
    return -(-count // threads)


def kernel(
    stem: str,
    title: str,
    body: str,
    helpers: Iterable[str] = (),
    shared: int = 0,
    maps: Sequence[Map] = (),
) -> Kernel:
    """Make a kernel of GPU-C text. `title` is one line for the reader; it must not hold the user's names, so that equal
    work is one kernel. Helpers that kernels share are defined once in a text of several. `shared`: bytes of POOL;
    `maps`, which the text must tell apart: see Kernel."""
    parts = [f"/* {title} */", *map(_once, helpers), body]
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts)
    symbol = f"k_{stem}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Kernel(symbol, text.replace(SYMBOL, symbol), shared, tuple(maps))


def _once(helper: str) -> str:
    name = f"POCK_{hashlib.sha256(helper.encode()).hexdigest()[:16].upper()}"
    return f"#ifndef {name}\n#define {name}\n{helper.strip()}\n#endif"


def call(node: Node, kernel: Kernel, grid: Grid, share: float = 1.0) -> Call:
    """A call of `kernel` on all operands of the node. `share` is the part of the node's work this call does."""
    operands = (*node.inputs, *node.outputs)
    return Call(kernel, operands, (), grid, int(flops_of(node) * share), int(bytes_of(node) * share))


def call_each(node: Node, kernel: Kernel, count: int, run: int = 1) -> Call:
    """A call of a kernel in which each of `count` elements, or each run of them, has a thread (`Code.each`)."""
    return call(node, kernel, Grid(blocks_of(count // run), THREADS))


def run_of(extents: Sequence[int], types: Iterable[TensorType], gpu: Gpu) -> int:
    """How many neighbours a thread takes of a space: as many of the widest type as are read or written at once, where
    the rest still keeps all multiprocessors busy. Their reads are on their way together."""
    widest = max(type.dtype.nbytes for type in types)
    for run in _RUNS:
        busy = math.prod(extents) // run >= gpu.multiprocessors * _BUSY
        if run * widest <= _RUN_BYTES and extents and extents[-1] % run == 0 and busy:
            return run
    return 1


def lies_in_runs(strides: Sequence[int], run: int) -> bool:
    """Whether each run of neighbours of a space lies side by side, at a multiple of its length."""
    return bool(strides) and strides[-1] == 1 and not any(stride % run for stride in strides[:-1])
