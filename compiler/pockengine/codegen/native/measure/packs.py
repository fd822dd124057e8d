"""Packs of trials: the part of the backends' protocol that native programs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....ir import Node
from ....progress import Progress
from ....targets import Target
from ...backend import PackedTrials
from ...tunable import CheckedTrial, PackLimits
from .making import ON_PROCESSOR, Making


class Packs:
    """See `codegen.backend.Backend`."""

    def making(self, target: Target, cache: Path | None) -> Making:
        """How kernels become part of a program that measures them: they run on the processor."""
        return ON_PROCESSOR

    def checkable(self, node: Node) -> bool:
        """See trials.py."""
        from .trials import is_checkable

        return is_checkable(node.outputs)

    def pack(
        self,
        trials: Sequence[CheckedTrial],
        target: Target,
        threads: int,
        limits: PackLimits,
        cache: Path | None,
        progress: Progress,
    ) -> PackedTrials:
        """See trials.py."""
        from .trials import pack

        making = self.making(target, cache)
        return pack(trials, target, making.threads(threads), limits, cache, progress, making)
