"""What is planned: nodes with the kernels that compute them, and where every value lives.

A backend makes a `Lowered` of each node; planning reads off it what workspace the node wants and what may share memory,
and hands a `Program` back, from which the backend makes the artifact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir import DType, Graph, Node, Value
from .demand import MemoryPlan
from .space import Space

PACKED = "packed"
"""Attribute of a region whose contraction finds its frozen weight packed in memory (see packed_weights.py)."""

SCRATCH = "scratch"
"""Attribute of a region: bytes of workspace that its kernels may take, one of those that `Backend.scratch` names."""


@dataclass(frozen=True)
class TensorMap:
    """How a GPU's engine finds boxes of an operand's numbers (cuTensorMapEncodeTiled), the innermost dimension first.

    operand   by its place among a call's
    offset    bytes from its beginning to the first number
    itemsize  bytes of a number
    extents   of the dimensions, in numbers
    strides   of all but the first dimension, in bytes
    box       extents of a box"""

    operand: int
    offset: int
    itemsize: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]


@dataclass(frozen=True)
class Matrices:
    """Matrices in memory, as a library of products reads or writes them.

    operand  by its place among a call's
    dtype    of their numbers
    offset   numbers from the operand's beginning to the first
    steps    numbers from a matrix to the next, from a row to the next, and from a column to the next"""

    operand: int
    dtype: DType
    offset: int
    steps: tuple[int, int, int]


@dataclass(frozen=True)
class Product:
    """What a library may do in the place of a kernel: result = left right, for each matrix.

    sizes      matrices; rows of the left, columns of the right, and terms of each sum
    multiplies_in  f32, tf32, bf16 or f16, with sums in f32
    scratch    operand behind whose first `used` bytes it may use so many `bytes`
    of_kernel  whether the kernel has that operand, too"""

    sizes: tuple[int, int, int, int]
    left: Matrices
    right: Matrices
    result: Matrices
    multiplies_in: str
    scratch: int
    used: int
    bytes: int
    of_kernel: bool


@dataclass(frozen=True)
class Texels:
    """An operand that a GPU reads in texels, pieces of 16 bytes, through its texture cache (OpenCL's image1d_buffer_t).

    operand  by its place among a call's
    count    of texels"""

    operand: int
    count: int


Map = TensorMap | Texels
"""What a kernel is told of an operand beside where it lies."""


@dataclass(frozen=True)
class Kernel:
    """One function of the device's. `symbol` names it, so that equal work on equal shapes is one kernel; `source` is
    what the backend's `build` makes it of, in the backend's own language; `shared` how many bytes of a GPU's shared
    memory a launch gives each block, beside what the source declares; `maps` what it is given after its operands;
    `product` what a library may do instead."""

    symbol: str
    source: str
    shared: int = 0
    maps: tuple[Map, ...] = ()
    product: Product | None = None


@dataclass(frozen=True)
class Tasks:
    """A launch on the threads of a processor: as one task, or cut into as many as there are threads."""

    parallel: bool


@dataclass(frozen=True)
class Whole:
    """A launch that computes all at once, however the backend does that."""


@dataclass(frozen=True)
class Grid:
    """A launch on a GPU: blocks of threads, each of which shares memory of its own. `trips` is how often a thread waits
    for memory, one time after the other, where that is known; `from_host` how many bytes it copies from the host's;
    `pieces` of the work are taken by blocks in turn, where they are more than blocks. `cycles` are those that its
    multiprocessors take at least by the model of its template, if that has one."""

    blocks: int
    threads: int
    trips: int = 1
    from_host: int = 0
    pieces: int = 0
    cycles: float = 0.0


Launch = Tasks | Whole | Grid
"""How a kernel is started. Only the backend that makes a form has to understand it."""


WHOLE = (0,)
"""A call's workspace that is the node's."""


@dataclass(frozen=True)
class Call:
    """One execution of a kernel. `operands` are values of the node, in the order the kernel expects; behind them are
    parts of the node's workspace, which begin so many bytes from its beginning (`workspace`)."""

    kernel: Kernel
    operands: tuple[Value, ...]
    workspace: tuple[int, ...]
    launch: Launch
    flops: int
    bytes: int


@dataclass(frozen=True)
class Lowered:
    """How one node is computed: calls in order, bytes of scratch memory while it runs, and the pairs (input index,
    output index) that may share memory because each element is read before the same element is written."""

    calls: tuple[Call, ...]
    workspace_bytes: int = 0
    inplace: tuple[tuple[int, int], ...] = ()

    @property
    def from_host(self) -> bool:
        """Whether it is a copy from the host's memory, which begins as soon as the one before it is done."""
        return any(isinstance(call.launch, Grid) and call.launch.from_host > 0 for call in self.calls)


def copies_begin(lowered: Sequence[Lowered]) -> dict[int, int]:
    """Step of each copy from the host's memory -> the step in which it begins: the first, or that after the copy before
    it. So it goes on while others compute, and its bytes are no other's from then on."""
    copies = [step for step, one in enumerate(lowered) if one.from_host]
    return dict(zip(copies, (0, *(step + 1 for step in copies)), strict=False))


Loops = tuple[tuple[int, int], ...]
"""(extent, stride in elements) of nested loops, the outermost first."""


@dataclass(frozen=True)
class Packing:
    """Element (b, n, k) of the original, found by the loops of each axis, lies at `b * n * k + panel * columns * k +
    k * width + n % columns`, where the panel has `columns` columns, and the last one those that are left."""

    columns: int
    b: Loops
    n: Loops
    k: Loops


@dataclass(frozen=True)
class Location:
    """Where a value lives at run time."""

    space: Space
    offset: int


@dataclass(frozen=True)
class Step:
    """One scheduled node with its kernels; `workspace` is the arena offset of its scratch memory, when it has any."""

    node: Node
    lowered: Lowered
    workspace: int | None


@dataclass(frozen=True)
class Program:
    """One entry point, planned: everything the emitter needs."""

    name: str
    graph: Graph
    steps: tuple[Step, ...]
    locations: Mapping[Value, Location]
    outputs: Mapping[str, Value]
    plan: MemoryPlan
