"""Which candidates of a workload are worth running, and which of them are different programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..codegen.tunable import Candidate, Choice, Trial
from ..plan.program import Lowered
from ..targets import Target
from .store import Entry, TuningStore
from .workload import Workload, device_of, distance

LOOKED_AT = 2
"""Times the candidates that are run: of the model's next, so many are compiled."""
NEAR = 6.0
"""Doublings between sizes within which a workload's result is worth trying on another."""


def wanted(
    workload: Workload,
    store: TuningStore,
    most: int,
    wide: bool,
    has: Callable[[str], bool] = lambda library: True,
    cache: Path | None = None,
) -> list[Candidate]:
    """The model's choice, that of a library which the machine `has`, what was best for the closest workloads, then the
    model's next; `most` of them. `cache` is the folder of compiled kernels."""
    found = workload.tunable.candidates(wide)
    space = [one for one in found if one.library is None or has(one.library)]
    near = _similar(workload, store, workload.target)
    known = [one for one in space[1:] if any(_alike(one.choice, other) for other in near)][:2]
    by_library = [one for one in space[1:] if one.library is not None]
    ahead = list(dict.fromkeys([*by_library[:1], *known]))
    rest = [one for one in space[1:] if one not in ahead]
    return [space[0], *ahead, *workload.tunable.appraised(rest[: LOOKED_AT * most], cache)][:most]


def trial_of(workload: Workload, candidates: Sequence[Candidate]) -> tuple[Trial, list[Candidate]]:
    """Candidates that come out as the same kernels are one."""
    distinct: dict[tuple[str, ...], tuple[Candidate, Lowered]] = {}
    for candidate in candidates:
        lowered = workload.tunable.lower(candidate.choice)
        distinct.setdefault(tuple(call.kernel.symbol for call in lowered.calls), (candidate, lowered))
    return (
        Trial(workload.node, tuple(lowered for _, lowered in distinct.values()), workload.target.ram_alignment),
        [candidate for candidate, _ in distinct.values()],
    )


def _similar(workload: Workload, store: TuningStore, target: Target) -> list[Any]:
    """The choices, as plain data, of stored workloads of the family with close shapes, the closest first."""

    def away(entry: Entry) -> float:
        try:
            return distance(workload.sizes, map(int, entry.inputs["sizes"].split(",")))
        except ValueError:  # a file may say anything
            return float("inf")

    entries = store.list(workload.family, device_of(target))
    close = sorted((away(entry), index) for index, entry in enumerate(entries))
    return [entries[index].result.choice for apart, index in close[:3] if apart <= NEAR]


_TRAITS = ("swap", "vectors", "split", "right", "pack_left", "format", "outputs", "lanes", "pixels", "way")
"""What of a choice carries over to other shapes."""


def _alike(choice: Choice, plain: Any) -> bool:
    """Whether a choice has the traits of one that is stored as plain data."""
    return bool(_traits(choice.to_plain()) == _traits(plain))


def _traits(plain: Any) -> Any:
    first = plain[0] if isinstance(plain, list) and plain else plain
    return {key: first.get(key) for key in _TRAITS} if isinstance(first, dict) else None
