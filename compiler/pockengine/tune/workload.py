"""What is tuned: one computation on one kind of machine, and everything that a measurement of it depends on."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ..codegen.backend import Backend
from ..codegen.common.identity import identity
from ..codegen.common.region import anchor_of
from ..codegen.tunable import Tunable
from ..ir import Node
from ..plan.program import PACKED
from ..targets import Target

VERSION = 2
"""Of the way in which is measured: results of other versions are not used."""


@dataclass(frozen=True, eq=False)
class Workload:
    """A tunable region. `nodes` are all that compute the same, of which the first stands for them."""

    nodes: tuple[Node, ...]
    target: Target
    threads: int
    backend: Backend

    @property
    def node(self) -> Node:
        return self.nodes[0]

    @cached_property
    def identity(self) -> str:
        """The computation without names."""
        return identity(self.node)

    @cached_property
    def tunable(self) -> Tunable:
        """What can be chosen for it."""
        found = self.backend.tunable(self.node, self.target, self.threads)
        assert found is not None
        return found

    @property
    def family(self) -> str:
        return self.tunable.family

    @property
    def names(self) -> tuple[str, ...]:
        """The user's names for it."""
        return tuple(dict.fromkeys(node.origin for node in self.nodes if node.origin))

    @cached_property
    def anchor(self) -> str:
        """The contraction without what is fused to it."""
        anchor = anchor_of(self.node)
        types = ", ".join(str(value.type) for value in (*anchor.inputs, anchor.output))
        return f"{anchor.op}({types}) {sorted(anchor.attrs.items())}"

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The shapes, to tell which workloads are close."""
        anchor = anchor_of(self.node)
        return tuple(size for value in (*anchor.inputs, anchor.output) for size in value.type.shape)

    @cached_property
    def weight(self) -> float:
        """Roughly the vector instructions a step spends on it."""
        return len(self.nodes) * sum(max(call.flops / 16, call.bytes / 4) for call in self.tunable.lower().calls)

    @cached_property
    def inputs(self) -> Mapping[str, str]:
        """Everything that a measurement depends on, as texts by name."""
        target = self.target
        kernels = self.tunable.lower().calls
        sources = "".join(call.kernel.source for call in kernels)
        machine = (target.vector_bytes, target.registers, target.l1_bytes, target.l2_bytes, target.cores)
        return {
            "family": self.family,
            "body": self.identity,
            "sizes": ",".join(map(str, self.sizes)),
            "device": device_of(target),
            "machine": ",".join(map(str, machine)),
            "threads": str(self.threads),
            "kernel": hashlib.sha256(sources.encode()).hexdigest(),
            **self.backend.environment(target),
            "tuner": str(VERSION),
        }


def device_of(target: Target) -> str:
    """The kind of machine: triple, CPU and features, and the format it multiplies in where that is not f32."""
    compute = "" if target.compute == "f32" else f" {target.compute}"
    return f"{target.triple} {target.mcpu}{compute}"


def key_of(inputs: Mapping[str, str]) -> str:
    """SHA-256 of all inputs."""
    return hashlib.sha256(json.dumps(dict(inputs), sort_keys=True).encode()).hexdigest()


def workloads_of(nodes: Iterable[Node], target: Target, threads: int, backend: Backend) -> list[Workload]:
    """The distinct workloads of tunable nodes that have more than one choice, those that take longest first."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if (known := backend.identity(node)) is not None:
            found.setdefault(known, []).append(_unpacked(node))
    made = [Workload(tuple(same), target, threads, backend) for same in found.values()]
    return sorted(made, key=lambda workload: -workload.weight)


def _unpacked(node: Node) -> Node:
    """The node on operands as the model stores them: which packing suits is what is measured."""
    return replace(node, attrs={key: value for key, value in node.attrs.items() if key != PACKED})


def distance(sizes: Iterable[int], others: Iterable[int]) -> float:
    """How far two shapes are apart: the sum of the doublings between their sizes; infinite for other ranks."""
    mine, theirs = tuple(sizes), tuple(others)
    if len(mine) != len(theirs):
        return math.inf
    return sum(abs(math.log2(max(1, a) / max(1, b))) for a, b in zip(mine, theirs, strict=True))
