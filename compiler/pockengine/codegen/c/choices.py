"""What can be chosen when a region is lowered, as data: the space that tuning searches.

A *choice* is what a template takes beside the node: the schedules of a contraction (one for each of the products that
share its result), or the tile of a depthwise convolution. Choices never change results beyond rounding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...ir import DType, Node, Value
from ...passes.winograd_marks import WINOGRAD
from ...plan.program import SCRATCH, Lowered
from ...targets import Target
from ..common.index_maps import Contraction
from ..common.region import as_region, body_of
from .contraction import kernel as contraction
from .contraction import narrow_schedule
from .contraction import strips as scratch
from .contraction.formats import CompressedOperand, named
from .contraction.plan import anchor_of, compressed_operand, products_of, schedules_of
from .contraction.schedule import Schedule, neighbours, share_of_peak
from .depthwise import kernel as depthwise
from .depthwise.plan import DepthwiseTile, by_channels
from .winograd import kernel as winograd
from .winograd import plan as winograd_plan
from .winograd.plan import Winograd, WinogradTile

Choice = tuple[Schedule, ...] | DepthwiseTile | WinogradTile

_VARIED = 4
"""Of the best schedules, those whose neighbours belong to the wide space; of Winograd's plans, those that belong to the
space."""


@dataclass(frozen=True)
class Candidate:
    """One choice; `cycles` is what the analytical model expects, None where there is no model."""

    choice: Choice
    cycles: float | None


def is_tunable(node: Node) -> bool:
    """Whether a choice can be made for a node: a contraction of f32."""
    if node.op != "region" or node.attrs["kind"] != "contraction" or not node.outputs[0].type.size:
        return False
    return anchor_of(node).output.type.dtype is DType.F32


def is_depthwise(node: Node) -> bool:
    """Whether a tunable node's contraction has templates of its own."""
    return by_channels(anchor_of(node))


def filtering(node: Node, target: Target, threads: int, choice: Choice | None = None) -> Winograd | None:
    """How a tunable node is computed by Winograd's minimal filtering, if that is the choice; default: if the model
    prefers it where it may be used."""
    if isinstance(choice, WinogradTile):
        return Winograd(anchor_of(node), target, threads, choice)
    if choice is not None:
        return None
    direct, filtered = _filtered(node, target, threads)
    return filtered[0][1] if filtered and filtered[0][0] < direct else None


def _filtered(node: Node, target: Target, threads: int) -> tuple[float, list[tuple[float, Winograd]]]:
    """Cycles of the best direct product, and the plans of minimal filtering beside them: none where it may not be
    used."""
    anchor = anchor_of(node)
    if not anchor.attrs.get(WINOGRAD) or compressed_operand(node) is not None:
        return 0.0, []
    parts = products_of(node)
    cycles, direct = schedules_of(parts[0], target, threads, None)[0]
    usable = len(parts) == 1 and named(direct.format, target).exact
    return cycles, winograd_plan.ranked(anchor, target, threads) if usable else []


def family(node: Node) -> str:
    """The kernel family of a tunable node: `depthwise_conv2d`, `matmul`, …"""
    anchor = anchor_of(node)
    return f"depthwise_{anchor.op}" if by_channels(anchor) else anchor.op


def multiplies_in(choice: Choice) -> str:
    """The formats in which a choice multiplies: f32, bf16x3, bf16 or f16."""
    if isinstance(choice, DepthwiseTile | WinogradTile):
        return "f32"
    return ", ".join(dict.fromkeys(schedule.format for schedule in choice))


def candidates(node: Node, target: Target, threads: int, wide: bool = False) -> list[Candidate]:
    """The choices for a tunable node, the model's first, then as the model ranks them, but where a convolution may be
    computed both by its definition and by minimal filtering the best of the other kind second; `wide` adds neighbours
    of the best direct ones in what the model decides without weighing."""
    if by_channels(anchor_of(node)):
        return [Candidate(tile, None) for tile in depthwise.tiles(node, target, threads)]
    direct = _products(node, target, threads, wide)
    _, plans = _filtered(node, target, threads)
    filtered = [Candidate(plan.tile, cycles) for cycles, plan in plans[:_VARIED]]
    if not filtered:
        return direct
    kinds = [filtered, direct] if filtering(node, target, threads) else [direct, filtered]
    rest = sorted((one for kind in kinds for one in kind[1:]), key=lambda one: one.cycles or 0.0)
    return [kind[0] for kind in kinds] + rest


def _products(node: Node, target: Target, threads: int, wide: bool) -> list[Candidate]:
    """The choices of a product by its definition."""
    parts = products_of(node)
    compressed = compressed_operand(node)
    spaces = [schedules_of(part, target, threads, compressed) for part in parts]
    if wide:
        for part, space in zip(parts, spaces, strict=True):
            known = {schedule for _, schedule in space}
            for _, base in space[:_VARIED]:
                near = [
                    (cycles, one)
                    for cycles, one in _neighbours(part, base, target, threads, compressed)
                    if one not in known
                ]
                space += near
                known |= {one for _, one in near}
    found: dict[Choice, float] = {}
    for index in range(max(map(len, spaces))):  # products of one kernel choose alike: each its index-th best
        chosen = [space[min(index, len(space) - 1)] for space in spaces]
        found.setdefault(tuple(schedule for _, schedule in chosen), sum(cycles for cycles, _ in chosen))
    first, *rest = found
    return [Candidate(choice, found[choice]) for choice in (first, *sorted(rest, key=found.__getitem__))]


def _neighbours(
    part: Contraction, base: Schedule, target: Target, threads: int, compressed: CompressedOperand | None
) -> list[tuple[float, Schedule]]:
    format = named(base.format, target)
    if format.narrow:
        return narrow_schedule.neighbours(part, base, threads, format, compressed)
    return neighbours(part, base, threads, compressed)


def lower(node: Node, target: Target, threads: int, choice: Choice | None = None) -> Lowered:
    """The kernels of a contraction region with a choice; default: the model's."""
    if by_channels(anchor_of(node)):
        assert choice is None or isinstance(choice, DepthwiseTile)
        return depthwise.lower(node, target, threads, choice)
    filtered = filtering(node, target, threads, choice)
    if filtered is not None:
        return winograd.lower(node, filtered)
    assert not isinstance(choice, DepthwiseTile | WinogradTile)
    if SCRATCH in node.attrs:
        choice = scratch.schedules_within(node, target, threads, choice)
    return contraction.lower(node, target, threads, choice)


def peak_share(node: Node, target: Target, threads: int, choice: Choice | None = None) -> float | None:
    """The part of the arithmetic peak that the model expects of a tunable node; None where there is no model."""
    if by_channels(anchor_of(node)) or filtering(node, target, threads, choice) is not None:
        return None
    parts, compressed = products_of(node), compressed_operand(node)
    assert not isinstance(choice, DepthwiseTile | WinogradTile)
    schedules = choice or tuple(schedules_of(part, target, threads, compressed)[0][1] for part in parts)
    work = [math.prod(part.sizes()) for part in parts]
    shares = [_share(part, one, target, threads, compressed) for part, one in zip(parts, schedules, strict=True)]
    time = sum(amount / share for amount, share in zip(work, shares, strict=True) if share)
    return sum(work) / time if time else None


def _share(
    part: Contraction, one: Schedule, target: Target, threads: int, compressed: CompressedOperand | None
) -> float:
    format = named(one.format, target)
    if format.narrow:
        return narrow_schedule.share_of_peak(part, one, threads, format, compressed)
    return share_of_peak(part, one, threads)


def to_plain(choice: Choice) -> Any:
    """Plain values, as JSON stores them."""
    return [asdict(schedule) for schedule in choice] if isinstance(choice, tuple) else asdict(choice)


def describe(choice: Choice) -> str:
    """One line for a person."""
    if isinstance(choice, DepthwiseTile):
        return f"tile {choice.pixels} pixels x {choice.lanes} channels"
    if isinstance(choice, WinogradTile):
        return choice.describe()
    return "; ".join(dict.fromkeys(_describe(schedule) for schedule in choice))


def _describe(s: Schedule) -> str:
    packed = {
        "direct": "B in place",
        "private": "B packed by each task",
        "shared": "B packed once",
        "block": "B packed",
    }
    swapped = ", operands exchanged" if s.swap else ""
    left = "A packed" if s.pack_left else "A in place"
    blocks = f"blocks {s.block} x {s.depth}"
    return f"tile {s.rows} x {s.columns}, {blocks}, {left}, {packed[s.right]}, threads share {s.split}{swapped}"


def identity(node: Node) -> str:
    """A region's body without names: equal texts are the same computation on the same shapes."""
    body = body_of(as_region(node))
    number: dict[Value, str] = {}
    lines = []
    for prefix, values in (("in", body.inputs), ("const", body.consts)):
        for index, value in enumerate(values):
            number[value] = f"{prefix}{index}"
            contents = f" = {body.consts[value].tolist()!r}" if value in body.consts else ""
            lines.append(f"{number[value]}: {value.type}{contents}")
    for inner in body.nodes:
        lines.append(_line(inner, number))
    lines.append("return " + ", ".join(number[value] for value in body.outputs.values()))
    return "\n".join(lines)


def _line(node: Node, number: dict[Value, str]) -> str:
    read = ", ".join(number[value] for value in node.inputs)
    for value in node.outputs:
        number[value] = f"v{len(number)}"
    made = ", ".join(f"{number[value]}: {value.type}" for value in node.outputs)
    return f"{made} = {node.op}({read}) {attributes(node.attrs)}"


def attributes(attrs: Mapping[str, Any]) -> str:
    """Equal texts are equal attributes."""
    return str({key: _plain(attrs[key]) for key in sorted(attrs)})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
