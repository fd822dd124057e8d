"""Kernels of GPU-C that run on this processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pockengine.codegen.emulated.build import emulator
from pockengine.codegen.emulated.text import units_of
from pockengine.ir import Node
from pockengine.plan.program import Call, Lowered
from pockengine.targets import Target
from tests.compiler.codegen.harness import Library, Lower


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


def rewritten(lower: Lower, words: str, others: str) -> Lower:
    """Lowers to the same kernel with other words in the place of some that it has."""

    def lowered(node: Node, target: Target, threads: int) -> Lowered:
        made = lower(node, target, threads)
        (call,) = made.calls
        text = call.kernel.source.replace(words, others)
        assert text != call.kernel.source
        return replace(made, calls=(replace(call, kernel=replace(call.kernel, source=text)),))

    return lowered
