"""The emulated backend as the compiler sees it."""

from __future__ import annotations

from pathlib import Path

from ...progress import Progress
from ...targets import HOST_MEMORY, Memory, Target
from ..backend import Built
from ..gpu.contraction.matrix import FORMATS as MATRIX_FORMATS
from ..gpu.lowering import Lowering
from ..model import Model
from ..native import toolchain
from ..untuned import Untuned
from .build import build


class EmulatedBackend(Lowering, Untuned):
    """A GPU's kernels as C; see `codegen.backend.Backend`."""

    name = "emulated"
    tunes = False
    formats = ("f32", *MATRIX_FORMATS)

    def memory(self, target: Target) -> Memory:
        """The processor's own."""
        return target.memory(HOST_MEMORY)

    def offloads(self, target: Target) -> bool:
        """See Lowering: the blocks are apart here, as they are where the GPU has a memory of its own."""
        return True

    def prepare(self, target: Target, cache: Path | None = None) -> None:
        """The C library and the runtime."""
        toolchain.prepare(target, cache)

    def build(self, model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
        """See build.py."""
        return build(model, target, cache, progress)
