"""The backends by name. This is the only module that knows which there are: a new one is an entry here.

Each is imported when it is asked for: running an artifact needs no templates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import ArtifactError, PockError, nearest
from ..targets import Target
from .backend import Backend
from .runner import Runner

DEFAULT = "c"
"""The backend where none is named, and of artifacts that name none."""


@dataclass(frozen=True)
class _Entry:
    backend: Callable[[], Backend]
    runner: Callable[[], Runner]


def _c() -> Backend:
    from .c.backend import CBackend

    return CBackend()


def _native_runner() -> Runner:
    from .native.runner import NativeRunner

    return NativeRunner()


def _reference() -> Backend:
    from .reference.backend import ReferenceBackend

    return ReferenceBackend()


def _reference_runner() -> Runner:
    from .reference.runner import ReferenceRunner

    return ReferenceRunner()


def _cuda() -> Backend:
    from .cuda.backend import CudaBackend

    return CudaBackend()


def _opencl() -> Backend:
    from .opencl.backend import OpenCLBackend

    return OpenCLBackend()


def _emulated() -> Backend:
    from .emulated.backend import EmulatedBackend

    return EmulatedBackend()


_BACKENDS: Mapping[str, _Entry] = {
    DEFAULT: _Entry(_c, _native_runner),
    "cuda": _Entry(_cuda, _native_runner),
    "emulated": _Entry(_emulated, _native_runner),
    "opencl": _Entry(_opencl, _native_runner),
    "reference": _Entry(_reference, _reference_runner),
}
NAMES = tuple(_BACKENDS)


def get(name: str = DEFAULT) -> Backend:
    """A backend by its name. PockError names the nearest known one."""
    if name not in _BACKENDS:
        raise PockError(f"there is no backend '{name}'{nearest(name, NAMES)}")
    return _BACKENDS[name].backend()


def of(target: Target, name: str | None = None) -> Backend:
    """The backend of a name, or the one that makes programs for a target where none is named."""
    return get(name or target.backend)


def runner(name: str) -> Runner:
    """What runs the artifacts of a backend. Raises ArtifactError where this version has no such backend."""
    if name not in _BACKENDS:
        known = ", ".join(NAMES)
        raise ArtifactError(
            f"the artifact was built by the backend '{name}', this version knows {known}: update pockengine"
        )
    return _BACKENDS[name].runner()
