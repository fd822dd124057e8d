"""From planned programs to an executable and a library that start kernels on a GPU of NVIDIA's."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from ...errors import ToolchainError
from ...plan.program import Call, Kernel
from ...progress import Progress, quiet
from ...targets import Target
from ..backend import Built
from ..folder_cache import default_folder
from ..gpu.contraction.kernels import Reported
from ..gpu.launches import calls_of, launches_name, started
from ..model import Model
from ..native import toolchain
from ..native.members import members_of, tools
from ..native.tables import emit_model
from ..object_cache import ObjectCache
from . import nvrtc
from .architecture import Architecture, architecture_of
from .text import launches_c, prelude


def device_runtime() -> toolchain.DeviceRuntime:
    """The runtime's part that hands work to the GPU."""
    return toolchain.DeviceRuntime.of("pockengine.codegen.cuda")


def build(model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
    """Compile the kernels and what starts them, and link. Raises ToolchainError, and TargetError without a GPU."""
    calls = calls_of(model.programs)
    images, hits = images_of(started(calls), architecture_of(target), cache, progress)
    objects = toolchain.compile_objects(_launches(calls, images, target), target, cache)
    linked = toolchain.link(objects, emit_model(model), target, cache, partial(progress, "link"), device_runtime())
    members, points = members_of(target, *linked)
    return Built(members, points, {**tools(), "nvrtc": nvrtc.version()}, len(images), hits)


def launches(calls: Sequence[Call], target: Target, cache: Path | None) -> dict[str, str]:
    """The C file that has the machine code of some kernels and starts them to be measured, by its name. Raises
    ToolchainError."""
    images, _ = images_of(started(calls), architecture_of(target), cache, quiet)
    return _launches(calls, images, target, measured=True)


def _launches(
    calls: Sequence[Call], images: Mapping[str, bytes], target: Target, measured: bool = False
) -> dict[str, str]:
    text = launches_c(calls, images, architecture_of(target), device_runtime().sources["launch.h"], measured)
    return {launches_name(text): text}


def images_of(
    kernels: Mapping[str, str], architecture: Architecture, cache: Path | None, progress: Progress
) -> tuple[dict[str, bytes], int]:
    """Machine code of kernels (symbol -> GPU-C), in their order, and how many the cache had."""
    store, found = ObjectCache((cache or default_folder()).absolute()), {}
    inputs = {symbol: _inputs(text, architecture) for symbol, text in kernels.items()}
    for symbol in kernels:
        path = store.find(inputs[symbol])
        if path is not None:
            found[symbol] = path.read_bytes()
    hits, missing = len(found), [symbol for symbol in kernels if symbol not in found]
    progress("compile", hits, len(kernels))
    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        made = workers.map(lambda symbol: compiled(symbol, kernels[symbol], architecture).image, missing)
        for symbol, image in zip(missing, made, strict=True):
            with store.workspace() as folder:
                (folder / "image").write_bytes(image)
                store.store(inputs[symbol], folder / "image")
            found[symbol] = image
            progress("compile", len(found), len(kernels))
    return {symbol: found[symbol] for symbol in kernels}, hits


def report_of(kernel: Kernel, cache: Path | None = None, *, architecture: Architecture) -> Reported:
    """What NVRTC says of a kernel; it, and the machine code, are kept. Raises ToolchainError."""
    store = ObjectCache((cache or default_folder()).absolute())
    inputs = _inputs(kernel.source, architecture)
    path = store.find({**inputs, "part": "report"})
    if path is None:
        made = compiled(kernel.symbol, kernel.source, architecture)
        with store.workspace() as folder:
            (folder / "image").write_bytes(made.image)
            store.store(inputs, folder / "image")
            (folder / "report").write_text(json.dumps([made.registers, made.spill_bytes]), "utf-8")
            path = store.store({**inputs, "part": "report"}, folder / "report")
    return Reported(*json.loads(path.read_text("utf-8")))


def compiled(symbol: str, text: str, architecture: Architecture) -> nvrtc.Compiled:
    """One kernel. Raises ToolchainError that names it."""
    try:
        return nvrtc.compile(prelude(text) + text, _options(architecture))
    except ToolchainError as error:
        raise ToolchainError(f"'{symbol}' does not compile for {architecture.name}: {error}") from None


def _options(architecture: Architecture) -> tuple[str, ...]:
    """Functions without a word of where they run are the GPU's; unused ones are no fault."""
    return f"--gpu-architecture={architecture.name}", "--device-as-default-execution-space", "--diag-suppress=177,550"


def _inputs(text: str, architecture: Architecture) -> Mapping[str, str]:
    return {"source": prelude(text) + text, "options": json.dumps(_options(architecture)), "nvrtc": nvrtc.version()}
