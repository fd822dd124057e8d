"""The OpenCL backend as the compiler sees it."""

from __future__ import annotations

from pathlib import Path

from ...progress import Progress
from ...targets import HOST_MEMORY, Memory, Target
from ..backend import Built
from ..gpu.lowering import Lowering
from ..model import Model
from ..native import toolchain
from ..untuned import Untuned
from .build import build


class OpenCLBackend(Lowering, Untuned):
    """GPU-C kernels that the device compiles; see `codegen.backend.Backend`."""

    name = "opencl"

    def memory(self, target: Target) -> Memory:
        """The processor's own, which the GPUs of phones and boards share."""
        return target.memory(HOST_MEMORY)

    def prepare(self, target: Target, cache: Path | None = None) -> None:
        """The C library and the runtime."""
        toolchain.prepare(target, cache)

    def build(self, model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
        """See build.py."""
        return build(model, target, cache, progress)
