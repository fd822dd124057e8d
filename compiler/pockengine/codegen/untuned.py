"""The part of the backends' protocol that is about choices, for a backend that has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from ..ir import Node
from ..progress import Progress
from ..targets import Target
from .backend import Description
from .tunable import CheckedTrial, Choice, PackLimits, Picks, Tunable


class Untuned:
    """There is one way to compute a node, and nothing to measure: see `codegen.backend.Backend`."""

    def identity(self, node: Node) -> str | None:
        """There is no choice."""
        return None

    def tuned(self, picks: Picks) -> Self:
        """There is no choice."""
        return self

    def describe(self, node: Node, target: Target, threads: int, choice: Choice | None = None) -> Description | None:
        """There is no choice."""
        return None

    def tunable(self, node: Node, target: Target, threads: int) -> Tunable | None:
        """There is no choice."""
        return None

    def runs_here(self, target: Target) -> bool:
        """Nothing is measured."""
        return False

    def environment(self, target: Target) -> Mapping[str, str]:
        """Nothing is measured."""
        return {}

    def measurer(self, target: Target, threads: int, cache: Path | None = None) -> None:
        """Nothing is measured."""

    def checkable(self, node: Node) -> bool:
        """Nothing is measured."""
        return False

    def pack(
        self,
        trials: Sequence[CheckedTrial],
        target: Target,
        threads: int,
        limits: PackLimits,
        cache: Path | None,
        progress: Progress,
    ) -> None:
        """Nothing is measured."""
