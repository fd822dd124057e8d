"""The kernels that programs start, and the host's functions that start them: C, whatever the device's language is."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

from ...plan.program import Call, Grid, Kernel, Map, Product, Program, TensorMap


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


def starters(calls: Collection[Call]) -> list[str]:
    """Lines of C: for each kernel, in the order of their names, the function that a model's tables name."""
    numbers = {symbol: number for number, symbol in enumerate(started(calls))}
    kernels = {call.kernel.symbol: call.kernel for call in calls}
    lines = []
    for symbol, (grid, operands) in sorted(grids_of(calls).items()):
        asked = [f"pock_copy_from_host({grid.from_host}, arg);"]
        if symbol in numbers:
            launch = f"{numbers[symbol]}, {grid.blocks}, {grid.threads}, arg, {operands}"
            asked = _launched(launch, kernels[symbol])
        text = "".join(f"    {line}\n" for line in asked)
        lines.append(f"void {symbol}(void *const *arg, int task, int tasks)\n{{\n{text}}}")
    return lines


def _launched(launch: str, kernel: Kernel) -> list[str]:
    """Lines of C that start a kernel, unless a library can do what it does."""
    asked, found = [f"pock_launch({launch});"], kernel.maps
    if found:
        asked = [
            f"static const pock_device_map maps[] = {{{', '.join(map(_map, found))}}};",
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


def _map(of: Map) -> str:
    """C's initialiser of a pock_device_map."""
    if not isinstance(of, TensorMap):
        return f"{{{of.operand}}}"
    return f"{{{of.operand}, {of.offset}, {of.itemsize}, {len(of.extents)}, {lists_of(of)}}}"


def lists_of(map_: TensorMap) -> str:
    """C's initialisers of extents, strides and box."""
    return ", ".join(f"{{{', '.join(map(str, one))}}}" for one in (map_.extents, map_.strides, map_.box))


def launches_name(text: str) -> str:
    """What the file of the starters is called among compiled objects: by its content."""
    return f"launches_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
