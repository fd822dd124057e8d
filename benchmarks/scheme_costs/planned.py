"""What random schemes cost as they are planned: found by several processes and kept in a file as they come.

A run that was stopped, in whatever way, goes on where it was: the file holds a line for each scheme that was planned,
after one that says of what. Schemes go by their number; the seed draws the same ones each time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pockengine.check.forked import in_fork
from pockengine.search import Choice, Cost, CostModel, Space

EVERY = 20
"""Schemes after which a process says how far all are."""

Plan = Callable[[], CostModel]
"""Begins to plan."""


class OtherCostsError(Exception):
    """A file holds other costs than those that are wanted."""


def digest(space: Space, choices: Sequence[Choice]) -> str:
    """Of a space and some choices: equal where they are drawn in the same way."""
    return hashlib.sha256(repr([space.units, *choices]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Kept:
    """A file of planned costs.

    about  what they are costs of"""

    path: Path
    about: Mapping[str, Any]

    @classmethod
    def of(cls, path: Path, about: Mapping[str, Any]) -> Kept:
        """A new file, or one as it was left, without what was cut while it was written. Raises OtherCostsError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_bytes() if path.exists() else b""
        whole = text[: text.rfind(b"\n") + 1]
        if not whole:
            path.write_bytes(_line(about))
        elif _parsed(whole.splitlines()[0]) != about:
            raise OtherCostsError(
                f"{path} does not hold costs of {json.dumps(about)}: name another folder, or remove the file"
            )
        elif whole != text:
            os.truncate(path, len(whole))
        return cls(path, about)

    def costs(self) -> dict[int, Cost]:
        """Number of a scheme -> what it costs, of all that were planned."""
        lines = [_parsed(line) for line in self.path.read_bytes().splitlines()[1:]]
        return {line["scheme"]: Cost(line["peak_bytes"], line["step_ms"]) for line in lines if line is not None}

    def add(self, scheme: int, cost: Cost) -> None:
        """At once and in one piece: other processes write too."""
        with self.path.open("ab", buffering=0) as file:
            file.write(_line({"scheme": scheme, "peak_bytes": cost.peak_bytes, "step_ms": cost.step_ms}))


def planned(kept: Kept, choices: Sequence[Choice], plan: Plan, processes: int) -> list[Cost]:
    """What each choice costs: those that are not kept yet are planned, by so many processes."""
    missing = _missing(kept, len(choices))
    parent = os.getpid()

    def find(numbers: Sequence[int], tell: bool) -> None:
        costs = plan()
        for done, number in enumerate(numbers, 1):
            if os.getpid() != parent and os.getppid() != parent:
                return  # nobody waits for it any more
            if number not in kept.costs():
                kept.add(number, costs.of(choices[number]))
            if tell and done % EVERY == 0:
                print(f"{kept.path.stem}: {len(kept.costs())} of {len(choices)} planned", file=sys.stderr)

    others = [in_fork(partial(find, missing[part::processes], tell=False)) for part in range(1, processes)]
    find(missing[::processes], tell=True)
    for other in others:
        other()
    find(_missing(kept, len(choices)), tell=False)  # a process that was killed may have spoilt another's line
    known = kept.costs()
    return [known[number] for number in range(len(choices))]


def _missing(kept: Kept, count: int) -> list[int]:
    known = kept.costs()
    return [number for number in range(count) if number not in known]


def _line(found: Mapping[str, Any]) -> bytes:
    return json.dumps(found).encode() + b"\n"


def _parsed(line: bytes) -> Any:
    """None for a line that is none: a process that was killed wrote a part of it."""
    try:
        return json.loads(line)
    except ValueError:
        return None
