"""What a confined process sees: the system's programs, the Python environment, the worker's sources, its own folder."""

import os
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from pock_server.settings import Settings

BUILD = "/build"
"""The child's own folder."""
CACHE = "/cache"
"""Its cache of compiled things; writable."""
BASE = "/base"
"""What was compiled for everybody; readable."""
KERNELS = "/kernels"
"""What other workers compiled for its workspace; readable."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_FILES = ("/etc/ld.so.cache", "/sys/devices/system/cpu")
_PACKAGES = ("pock_server", "pockengine")


@dataclass(frozen=True)
class Place:
    """A folder or file of this machine, and where the child finds it."""

    host: str
    inside: str
    writable: bool = False


@dataclass(frozen=True)
class View:
    """Places in an order in which they can be mounted, links, and the environment."""

    places: tuple[Place, ...]
    links: dict[str, str]
    environment: dict[str, str] = field(repr=False)

    def folders(self) -> list[str]:
        """Folders to make for the places to be mounted on, parents first."""
        wanted = {str(parent) for place in self.places for parent in Path(place.inside).parents}
        tops = [Path(place.inside) for place in self.places]
        return sorted(path for path in wanted - {"/"} if not any(Path(path).is_relative_to(top) for top in tops))


def make_view(settings: Settings, own: tuple[Place, ...]) -> View:
    """The system and Python to read, and the child's `own` places."""
    links = {path: os.readlink(path) for path in _SYSTEM if os.path.islink(path)}
    read = [path for path in (*_SYSTEM, *_FILES) if path not in links and os.path.exists(path)]
    packages = {name: _package(name) for name in _PACKAGES}
    python = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parents[1])}
    read += sorted({*python, *(path for path in packages.values() if path), *settings.sandbox_readable})
    tops = [path for path in read if not any(path != top and Path(path).is_relative_to(top) for top in read)]
    shared = tuple(Place(path, path) for path in tops)
    sources = sorted({str(Path(path).parent) for path in packages.values() if path})
    return View((*shared, *own), links, _environment([*sources, *settings.sandbox_readable]))


def _environment(sources: list[str]) -> dict[str, str]:
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": BUILD,
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "XDG_CACHE_HOME": CACHE,
        "PYTHONPATH": os.pathsep.join(sources),
        "PYTHONSAFEPATH": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _package(name: str) -> str | None:
    found = find_spec(name)
    return str(Path(found.origin).resolve().parent) if found is not None and found.origin else None
