"""How often a request climbs back up a layer: who calls whom while one small model is compiled.

The layers are those that import-linter holds the compiler to. A call climbs where a module calls one of a higher layer,
which it cannot import: through a callback, a method of a protocol or a generator.
"""

from __future__ import annotations

import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = "pockengine"

Edge = tuple[str, str]
"""(the module that calls, the module that is called), without `pockengine.`."""


def layers() -> dict[str, int]:
    """The compiler's layers by name, 0 the ground."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    listed = next(one["layers"] for one in contracts if one["id"] == "compiler-layers")
    return {name.strip("() "): height for height, name in enumerate(reversed(listed))}


def climbing(edges: set[Edge]) -> set[Edge]:
    """Those that go up a layer."""
    height = layers()
    return {(below, above) for below, above in edges if height[_layer(above)] > height[_layer(below)]}


def _layer(module: str) -> str:
    return module.partition(".")[0]


def calls_of(work: Callable[[], object]) -> set[Edge]:
    """Who calls whom in the compiler, module by module, while `work` is done. What stands between two modules of ours,
    such as a function of the standard library, is skipped."""
    edges: set[Edge] = set()
    seen: set[tuple[CodeType, CodeType]] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or (called := _module(frame)) is None:
            return
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        if caller is None or (caller.f_code, frame.f_code) in seen:
            return
        seen.add((caller.f_code, frame.f_code))
        above = _module(caller)
        if above is not None and above != called:
            edges.add((above, called))

    with _watched(watch):
        work()
    return edges


@contextmanager
def _watched(watch: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _module(frame: FrameType) -> str | None:
    """The module of the compiler whose function a frame runs; None for others, and where a module is being imported."""
    name = str(frame.f_globals.get("__name__", ""))
    if not name.startswith(f"{PACKAGE}.") or frame.f_code.co_name == "<module>":
        return None
    return name.removeprefix(f"{PACKAGE}.")
