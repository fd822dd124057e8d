"""Kernels of GPU-C that run on this processor."""

from __future__ import annotations

from collections.abc import Sequence

from pockengine.codegen.emulated.build import emulator
from pockengine.codegen.emulated.text import units_of
from pockengine.plan.program import Call
from tests.compiler.codegen.harness import Library


class EmulatedLibrary(Library):
    """Kernels of many cases by a backend of GPUs, whose threads run by turns."""

    def _sources(self, calls: Sequence[Call]) -> dict[str, str]:
        return emulated_sources(calls)


def emulated_sources(calls: Sequence[Call]) -> dict[str, str]:
    """C files by their names without ending: the kernels', and what runs them."""
    runtime = emulator().sources
    header = runtime["emulator.h"]
    parts = {
        name.removesuffix(".c"): text.replace('#include "emulator.h"', header)
        for name, text in runtime.items()
        if name.endswith(".c")
    }
    return units_of(calls, header) | parts
