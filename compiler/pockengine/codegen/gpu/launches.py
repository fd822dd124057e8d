"""The kernels that programs start, and the host's functions that start them: C, whatever the device's language is."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from ...plan.program import Call, Grid, Kernel, Product, Program, TensorMap, Texels
from ...plan.space import BLOCKS, Space


def calls_of(programs: Mapping[str, Program]) -> list[Call]:
    """Every call of a model's programs."""
    return [call for program in programs.values() for step in program.steps for call in step.lowered.calls]


def kernels_of(calls: Iterable[Call]) -> dict[str, str]:
    """Symbol -> GPU-C of every kernel that is called, in the order of their names."""
    return dict(sorted({call.kernel.symbol: call.kernel.source for call in calls}.items()))


def started(calls: Iterable[Call]) -> dict[str, str]:
    """The same of what is started, where copies from the host's memory are the driver's work."""
    return kernels_of(call for call in calls if isinstance(call.launch, Grid) and not call.launch.from_host)


def grids_of(calls: Iterable[Call]) -> dict[str, tuple[Grid, int]]:
    """Symbol -> how it is started, which its text decides, and its number of operands."""
    found = {}
    for call in calls:
        assert isinstance(call.launch, Grid)
        product = call.kernel.product
        scratch = len(call.workspace) if product is None else product.of_kernel
        found[call.kernel.symbol] = (call.launch, len(call.operands) + scratch)
    return found


TexelBlocks = Mapping[str, Sequence[Space | None]]
"""Symbol -> of each operand that a kernel may read as an image, the block where it lies; None: it cannot."""


def texel_blocks(programs: Mapping[str, Program]) -> TexelBlocks:
    """Where operands lie that kernels read as images, at all calls of each. OpenCL leaves undefined what an image holds
    over a buffer that is written meanwhile (1.2, 5.2.2), so none is in a block that the kernel writes."""
    found = dict[str, list[Space | None]]()
    for program in programs.values():
        for step in program.steps:
            for call in step.lowered.calls:
                spaces = [program.locations[value].space for value in call.operands]
                read = [*spaces, *(Space.ARENA for _ in call.workspace)]
                written = {
                    space for space, value in zip(spaces, call.operands, strict=True) if value in step.node.outputs
                }
                written |= {Space.ARENA} if call.workspace else set()
                lies = [None if read[one.operand] in written else read[one.operand] for one in _texels(call.kernel)]
                before = found.setdefault(call.kernel.symbol, lies)
                found[call.kernel.symbol] = [a if a is b else None for a, b in zip(before, lies, strict=True)]
    return found


def measured_blocks(calls: Iterable[Call]) -> TexelBlocks:
    """The same where kernels are measured: operands of a node in the block of inputs, results in the arena."""
    return {
        call.kernel.symbol: [Space.INPUT if one.operand < len(call.operands) else None for one in _texels(call.kernel)]
        for call in calls
    }


def _texels(kernel: Kernel) -> list[Texels]:
    return [one for one in kernel.maps if isinstance(one, Texels)]


def starters(calls: Collection[Call], blocks: TexelBlocks | None = None) -> list[str]:
    """Lines of C: for each kernel, in the order of their names, the function that a model's tables name."""
    numbers = {symbol: number for number, symbol in enumerate(started(calls))}
    kernels = {call.kernel.symbol: call.kernel for call in calls}
    lines = []
    for symbol, (grid, operands) in sorted(grids_of(calls).items()):
        asked = [f"pock_copy_from_host({grid.from_host}, arg);"]
        if symbol in numbers:
            launch = f"{numbers[symbol]}, {grid.blocks}, {grid.threads}, arg, {operands}"
            asked = _launched(launch, kernels[symbol], (blocks or {}).get(symbol, ()))
        text = "".join(f"    {line}\n" for line in asked)
        lines.append(f"void {symbol}(void *const *arg, int task, int tasks)\n{{\n{text}}}")
    return lines


def _launched(launch: str, kernel: Kernel, blocks: Sequence[Space | None]) -> list[str]:
    """Lines of C that start a kernel, unless a library can do what it does."""
    asked, found = [f"pock_launch({launch});"], kernel.maps
    if found:
        texels = [f"{{{one.operand}, {number_of(lies)}}}" for one, lies in zip(_texels(kernel), blocks, strict=True)]
        maps = texels or [_map(one) for one in found if isinstance(one, TensorMap)]
        asked = [
            f"static const pock_device_map maps[] = {{{', '.join(maps)}}};",
            f"pock_launch_mapped({launch}, maps, {len(found)});",
        ]
    if kernel.product is not None:
        made = f"static const pock_product product = {_product(kernel.product)};"
        asked = [made, "if (pock_multiply(&product, arg)) {", "    return;", "}", *asked]
    return asked


def _product(of: Product) -> str:
    """C's initialiser of a pock_product."""
    matrices = ", ".join(
        f"{{{one.operand}, POCK_NUMBERS_{one.dtype.name}, {one.offset}, {{{', '.join(map(str, one.steps))}}}}}"
        for one in (of.left, of.right, of.result)
    )
    sizes = ", ".join(map(str, of.sizes))
    tf32 = int(of.multiplies_in == "tf32")
    return f"{{{{{sizes}}}, {matrices}, {tf32}, {of.scratch}, {of.used}, {of.bytes}}}"


def number_of(block: Space | None) -> int:
    """A block's number in the runtime; -1 where there is none."""
    return -1 if block is None else BLOCKS.index(block)


def _map(of: TensorMap) -> str:
    """C's initialiser of a pock_device_map."""
    return f"{{{of.operand}, {of.offset}, {of.itemsize}, {len(of.extents)}, {lists_of(of)}}}"


def lists_of(map_: TensorMap) -> str:
    """C's initialisers of extents, strides and box."""
    return ", ".join(f"{{{', '.join(map(str, one))}}}" for one in (map_.extents, map_.strides, map_.box))


def launches_name(text: str) -> str:
    """What the file of the starters is called among compiled objects: by its content."""
    return f"launches_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
