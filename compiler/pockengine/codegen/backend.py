"""The protocol between the compiler and what turns its graphs into programs of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..ir import Node
from ..plan.program import Lowered, Packing
from ..targets import Target


class Backend(Protocol):
    """Turns legal nodes into kernels for one target."""

    name: str

    def unsupported(self, node: Node) -> str | None:
        """Why this node cannot be lowered, or None."""

    def claims(self, node: Node) -> bool:
        """Whether a composite is lowered whole, which must be possible, instead of being expanded."""

    def lower(self, node: Node, target: Target, threads: int) -> Lowered:
        """The kernels of one node."""

    def packing(self, node: Node, target: Target, threads: int) -> tuple[int, Packing] | None:
        """The input that a node would pack whole each time, and how it could lie in memory instead."""

    def scratch(self, node: Node, target: Target, threads: int) -> Sequence[tuple[int, float]]:
        """(bytes of workspace, time in parts of the usual one) of the ways to compute a node in less than the usual
        workspace, the quickest first."""
