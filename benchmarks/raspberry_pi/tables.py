"""The estimates as Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.document import table
from benchmarks.raspberry_pi.estimate import Estimate, Loop
from benchmarks.raspberry_pi.libraries import LIBRARIES
from benchmarks.raspberry_pi.pipeline import PROCESSORS

_PRODUCT = "matrix product"


@dataclass(frozen=True)
class Result:
    """One step on one processor, and the instructions of each library for its matrix products alone."""

    title: str
    estimate: Estimate
    product_flops: int
    libraries: Mapping[str, int]


def report(results: Sequence[Result]) -> str:
    """All tables."""
    return "\n\n".join(
        (
            "Inner loops: vector multiply-adds (for the exponential: vector arithmetic) as a share of those the"
            " processor can start, by the loops' use in all steps below. Tiles are rows x vectors of four.",
            _loops(results),
            "Whole steps at batch 1 on one core:",
            _steps(results),
            "Instructions for a FLOP of the matrix products (1/8 = 0.125 if each were a multiply-add of four lanes):",
            _products(results),
        )
    )


def _loops(results: Sequence[Result]) -> str:
    columns = []
    for processor in PROCESSORS:
        loops = [loop for one in results if one.estimate.processor == processor for loop in one.estimate.loops]
        columns.append(_shares(loops, processor.products))
    names = [name for name in columns[0] if any(name in other for other in columns[1:])]
    rows = [[name, *(column.get(name, "-") for column in columns)] for name in names]
    return table(["inner loop", *(processor.title for processor in PROCESSORS)], rows)


def _shares(loops: Sequence[Loop], most: int) -> dict[str, str]:
    """Share of the most instructions a cycle, by name; tiles of the matrix product from the most work to the least,
    only the first few."""
    work: dict[str, float] = defaultdict(float)
    cycles: dict[str, float] = defaultdict(float)
    for loop in loops:
        for name in (loop.name, _PRODUCT + ", all tiles") if loop.name.startswith(_PRODUCT) else (loop.name,):
            work[name] += loop.work * loop.executed
            cycles[name] += loop.cycles * loop.executed
    ordered = sorted(work, key=lambda name: (not name.startswith(_PRODUCT), -work[name]))
    return {name: f"{work[name] / cycles[name] / most:.0%}" for name in ordered}


def _steps(results: Sequence[Result]) -> str:
    head = ["step", "processor", "MFLOP", "M instructions", "instructions / FLOP", "M cycles", "share of peak", "ms"]
    rows = [
        [
            one.title,
            one.estimate.processor.title,
            f"{one.estimate.flops / 1e6:.0f}",
            f"{one.estimate.instructions / 1e6:.0f}",
            f"{one.estimate.instructions / one.estimate.flops:.3f}",
            f"{one.estimate.cycles / 1e6:.0f}",
            f"{one.estimate.share_of_peak:.0%}",
            f"{one.estimate.milliseconds:.1f}",
        ]
        for one in results
    ]
    return table(head, rows)


def _products(results: Sequence[Result]) -> str:
    head = ["step", "processor", "PockEngine", *LIBRARIES, *(f"ours / {name}" for name in LIBRARIES)]
    rows = []
    for one in results:
        ours = one.estimate.kind_instructions["product"]
        counts = [one.libraries[name] for name in LIBRARIES]
        rates = [count / one.product_flops for count in (ours, *counts)]
        figures = [f"{rate:.3f}" for rate in rates] + [f"{ours / count:.2f}" for count in counts]
        rows.append([one.title, one.estimate.processor.title, *figures])
    return table(head, rows)
