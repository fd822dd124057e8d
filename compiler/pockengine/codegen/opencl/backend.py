"""The OpenCL backend as the compiler sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...ir import Node
from ...progress import Progress
from ...targets import HOST_MEMORY, Memory, Target
from ..backend import Built, Description, Limits
from ..gpu.lowering import Lowering
from ..model import Model
from ..tunable import CheckedTrial, Choice, PackLimits, Picks
from .build import build, prepare


class OpenCLBackend(Lowering):
    """GPU-C kernels that the device compiles; see `codegen.backend.Backend`."""

    name = "opencl"

    def limits(self, target: Target) -> Limits:
        """Products are of f32."""
        return Limits(("f32",), tunes=False)

    def memory(self, target: Target) -> Memory:
        """The processor's own, which the GPUs of phones and boards share."""
        return target.memory(HOST_MEMORY)

    def identity(self, node: Node) -> str | None:
        """There is no choice."""
        return None

    def tuned(self, picks: Picks) -> OpenCLBackend:
        """There is no choice."""
        return self

    def describe(self, node: Node, target: Target, threads: int, choice: Choice | None = None) -> Description | None:
        """There is no choice."""
        return None

    def tunable(self, node: Node, target: Target, threads: int) -> None:
        """There is no choice."""

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

    def prepare(self, target: Target, cache: Path | None = None) -> None:
        """The C library and the runtime."""
        prepare(target, cache)

    def build(self, model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
        """See build.py."""
        return build(model, target, cache, progress)
