"""What planning asks of a backend: kernels and workspace of a node, for one target and number of threads."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol

from ..errors import UnsupportedOperatorError
from ..ir import DType, Graph, Node
from ..targets import Memory, Target
from .program import Lowered, Packing

RUNTIME_BYTES = 1 << 20
"""What a running program needs beside its five blocks of memory where its backend does not know better: code, tables, C
library, stacks of two threads and the buffers of file reading."""


class Lowers(Protocol):
    """The part of a `codegen.backend.Backend` that planning asks."""

    def memory(self, target: Target) -> Memory:
        """In which of the target's memories the blocks of tensors lie. Raises TargetError where it has none such."""

    def unsupported(self, node: Node) -> str | None:
        """Why this node cannot be lowered, or None."""

    def lower(self, node: Node, target: Target, threads: int) -> Lowered:
        """The kernels of one node."""

    def cost(self, lowered: Lowered, target: Target, threads: int) -> float:
        """About how long a lowered node takes, in cycles of the target: to compare nodes with each other."""

    def rounds(self, node: Node, target: Target) -> DType | None:
        """The 16-bit format to which a node rounds the operands of its products; None where it rounds none so."""

    def packing(self, node: Node, target: Target, threads: int) -> tuple[int, Packing] | None:
        """A variant of a node's lowering: the input that it would pack whole each time, and how that input could lie in
        memory instead. None where there is none."""

    def scratch(self, node: Node, target: Target, threads: int) -> Sequence[tuple[int, float]]:
        """Variants of a node's lowering: (bytes of workspace, time in parts of the usual one) of the ways to compute it
        in less than the usual workspace, the quickest first."""

    def runtime_bytes(self, model: Graph) -> int:
        """What a program that trains a model needs beside its five blocks of memory, whatever it trains of it."""


class Lowering:
    """A backend's answers about nodes, for one target and number of threads; no node is lowered twice.

    memory  in which the blocks of tensors lie"""

    def __init__(self, backend: Lowers, target: Target, threads: int) -> None:
        self.target, self.threads = target, threads
        self.memory = backend.memory(target)
        self._backend = backend
        self._known: dict[Node, Lowered] = {}

    def __call__(self, node: Node) -> Lowered:
        """The kernels of a node. Raises UnsupportedOperatorError."""
        if node not in self._known:
            reason = self._backend.unsupported(node)
            if reason:
                raise UnsupportedOperatorError(
                    f"the {node.phase} part needs {node.op} for '{node.origin}': {reason}",
                    node.op,
                    node.origin,
                    ", ".join(str(value.type) for value in node.inputs),
                    "replace it in the model, or freeze what lies before it if only its gradient is needed",
                )
            self._known[node] = self._backend.lower(node, self.target, self.threads)
        return self._known[node]

    @property
    def identity(self) -> Hashable:
        """All that the kernels of a node depend on beside it."""
        return self._backend, self.target, self.threads

    def known_of(self, nodes: Iterable[Node]) -> dict[Node, Lowered]:
        """The kernels of those nodes that were lowered."""
        return {node: self._known[node] for node in nodes if node in self._known}

    def learn(self, lowered: Mapping[Node, Lowered]) -> None:
        """Take over what another with the same `identity` lowered."""
        self._known.update(lowered)

    @property
    def alignment(self) -> int:
        """Every tensor begins at a multiple of this many bytes."""
        return self.memory.alignment

    def cycles(self, node: Node) -> float:
        """About how long a node takes, in cycles of the target."""
        return self._backend.cost(self(node), self.target, self.threads)

    def rounds(self, node: Node) -> DType | None:
        """The 16-bit format to which a node rounds the operands of its products."""
        return self._backend.rounds(node, self.target)

    def packing(self, node: Node) -> tuple[int, Packing] | None:
        """The input that a node would pack whole each time, and how it could lie in memory instead."""
        return self._backend.packing(node, self.target, self.threads)

    def scratch(self, node: Node) -> Sequence[tuple[int, float]]:
        """(bytes of workspace, time in parts of the usual one) of the ways to compute a node in less than the usual
        workspace, the quickest first."""
        return self._backend.scratch(node, self.target, self.threads)

    def runtime_bytes(self, model: Graph) -> int:
        """What a program that trains a model needs beside its five blocks of memory, whatever it trains of it."""
        return self._backend.runtime_bytes(model)
