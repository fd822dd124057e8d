"""How the work on contributions is done: in what order, for how long, and where it keeps what it has."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ...artifact import Artifact
from ...compile import compile
from ...ir import Array, render
from ...progress import Progress, quiet
from ...recipe import Recipe
from ..space import Space

Data = Mapping[str, Array]
"""A dataset: for each input of the training step, targets included, an array whose first axis is the samples'."""


@dataclass(frozen=True)
class Work:
    """
    seed      of the order of samples
    seconds   after which the work ends with what it has; None: when it is done
    folder    where it keeps what it has measured and finds it again; None: nowhere
    threads   of what is compiled; None: the machine's cores
    progress  called with (stage, done, total)"""

    seed: int = 0
    seconds: float | None = None
    folder: Path | None = None
    threads: int | None = None
    progress: Progress = quiet

    def compiled(self, space: Space, recipe: Recipe) -> Artifact:
        """The space's model with a recipe, for this machine. Raises RecipeError or UnsupportedOperatorError."""
        return compile(space.graph, recipe, "host", self.threads)

    def kept(self, name: str, identity: str) -> Path | None:
        """The file for partial results of what `identity` tells apart; None where nothing is kept. Raises OSError."""
        if self.folder is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        stem, _, ending = name.rpartition(".")
        return self.folder / f"{stem}-{identity}.{ending}"


@dataclass(frozen=True)
class Clock:
    """The time that a piece of work has taken."""

    limit: float | None = None
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float | None:
        """Seconds until the limit; None where there is none."""
        return None if self.limit is None else max(0.0, self.limit - self.seconds)

    def is_over(self, coming: float = 0.0) -> bool:
        """Whether the limit would be passed by something that takes `coming` seconds."""
        return self.limit is not None and self.seconds + coming > self.limit


def identity_of(space: Space, recipe: Recipe, datasets: Mapping[str, Data], **settings: float | str | None) -> str:
    """Tells apart what would give other results: the model with its contents, the recipe, the data, the settings."""
    found = hashlib.sha256(render(space.graph).encode())
    for value in space.graph.params:
        _add(found, value.name, space.graph.data[value.name])
    for label, data in datasets.items():
        for name in sorted(data):
            _add(found, f"{label}.{name}", data[name])
    units = [[unit.name, unit.axis, unit.shares, unit.ranks] for unit in space.units]
    found.update(json.dumps([recipe.to_mapping(), units, settings], sort_keys=True, default=str).encode())
    return found.hexdigest()[:16]


def _add(found: hashlib._Hash, name: str, array: Array) -> None:
    found.update(f"{name} {array.dtype} {array.shape}".encode())
    found.update(np.asarray(array, order="C").reshape(-1).view(np.uint8).data)
