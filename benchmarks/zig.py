"""Runs zig as the compiler does, so that benchmarks use the C libraries that it has built."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable

from pockengine.codegen.native.toolchain import ZIG_FOLDER, zig_cache
from pockengine.targets.processor import ZIG


class DoesNotCompile(RuntimeError):
    """What zig complained of first."""


def zig(language: str, arguments: Iterable[str]) -> None:
    """`zig cc` or `zig c++`; every path of the arguments is absolute. Raises DoesNotCompile."""
    cache = os.path.abspath(os.environ.get("ZIG_GLOBAL_CACHE_DIR") or zig_cache())
    done = subprocess.run(
        [str(ZIG), language, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=ZIG_FOLDER,
        env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache},
    )
    if done.returncode != 0:
        raise DoesNotCompile(next((line for line in done.stderr.splitlines() if "error:" in line), done.stderr[-300:]))
