"""Tests that load an OpenCL driver into Python do so in a process of their own.

PoCL brings an LLVM, and so do frameworks that other tests import: two of them in one process crash."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def apart(function: Callable[Arguments, Result], *given: Arguments.args, **named: Arguments.kwargs) -> Result:
    """What a module's function returns, or raises, when it is called in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(function, *given, **named).result()
