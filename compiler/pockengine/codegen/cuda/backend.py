"""The CUDA backend as the compiler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from ...ir import Node
from ...progress import Progress
from ...targets import HOST_MEMORY, Memory, Target, get
from ..backend import Built
from ..gpu.contraction.matrix import FORMATS as MATRIX_FORMATS
from ..gpu.lowering import Lowering
from ..gpu.tunable import TunableProducts
from ..model import Model
from ..native import toolchain
from ..native.host import said_by
from ..native.measure.accelerated import Accelerated, AcceleratedMeasurer
from ..native.measure.making import Making
from . import nvrtc
from .architecture import architecture_of
from .build import build, device_runtime, launches, report_of

GPU_MEMORY = "gpu"
"""What a target calls the memory that its GPU has to itself."""


class CudaBackend(Lowering, Accelerated):
    """GPU-C kernels as machine code of NVIDIA's GPUs; see `codegen.backend.Backend`."""

    name = "cuda"
    formats = ("f32", *MATRIX_FORMATS)

    def memory(self, target: Target) -> Memory:
        """The GPU's own, or the processor's where both share one."""
        architecture_of(target)
        return target.memory(GPU_MEMORY if self.offloads(target) else HOST_MEMORY)

    def offloads(self, target: Target) -> bool:
        """See Lowering: where the GPU has a memory of its own."""
        return any(memory.name == GPU_MEMORY for memory in target.accelerators)

    def prepare(self, target: Target, cache: Path | None = None) -> None:
        """The C library and the runtime."""
        toolchain.prepare(target, cache)

    def build(self, model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
        """See build.py."""
        return build(model, target, cache, progress)

    def environment(self, target: Target) -> Mapping[str, str]:
        """What the machine code is for, and what makes it."""
        return {"gpu": architecture_of(target).name, "compiler": f"nvrtc {nvrtc.version()}"}

    def runs_here(self, target: Target) -> bool:
        """Whether there is a GPU here of the capability that is compiled for."""
        architecture = architecture_of(target)
        return target.arch == get("host").arch and _capability_here() == f"{architecture.major}.{architecture.minor}"

    def measurer(self, target: Target, threads: int, cache: Path | None = None) -> AcceleratedMeasurer:
        """See Accelerated: with the libraries that are here."""
        found = frozenset(said_by(Path(__file__).with_name("library.py")).split())
        return replace(super().measurer(target, threads, cache), libraries=found)

    def tunable(self, node: Node, target: Target, threads: int) -> TunableProducts | None:
        """See Lowering: with what the compiler says of kernels."""
        found = super().tunable(node, target, threads)
        report = partial(report_of, architecture=architecture_of(target))
        return None if found is None else replace(found, report=report)

    def making(self, target: Target, cache: Path | None) -> Making:
        """See Packs."""
        return Making(lambda calls: launches(calls, target, cache), device_runtime())


def _capability_here() -> str:
    return said_by(Path(__file__).with_name("device.py"))
