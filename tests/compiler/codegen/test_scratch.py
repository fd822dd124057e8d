"""Contractions in less scratch memory compute the same bits, a strip of a packed operand at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.c import CBackend
from pockengine.codegen.common.region import as_region
from pockengine.plan.program import SCRATCH
from pockengine.targets import get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.harness import TILES, Case, Library, compare
from tests.compiler.codegen.test_narrow import matmul
from tests.sweeps import some

TARGETS = {
    "host": get("host"),
    "tiles": TILES,
    "f32": TILES.without_tiles(),
    "bf16": TILES.without_tiles().computing("bf16"),
}


def cases() -> list[Case]:
    """Each orientation, widths that strips do not divide, a batch; every other one with an epilogue."""
    rng = np.random.default_rng(11)
    found = [matmul((70, 500, 130), False, True), matmul((300, 200, 64), False, False)]
    found += [matmul((200, 300, 140), True, False), matmul((150, 170, 90), False, True, "3,")]
    return [geometries.with_epilogue(case, rng) if i % 2 else case for i, case in enumerate(found)]


@pytest.mark.parametrize("name, threads", some([("host", 2), ("tiles", 2), ("f32", 1), ("f32", 3), ("bf16", 2)], 2))
def test_the_same_bits_in_less_memory(tmp_path: Path, name: str, threads: int) -> None:
    target, backend, usual, less = TARGETS[name], CBackend(), list[Case](), list[Case]()
    for case in cases():
        region = as_region(case.node)
        ways = backend.scratch(region, target, threads)
        before = backend.lower(region, target, threads).workspace_bytes
        for nbytes, time in ways:
            lean = replace(region, attrs={**region.attrs, SCRATCH: nbytes})
            assert backend.lower(lean, target, threads).workspace_bytes == nbytes < before and time > 0
            before = nbytes
        if ways:
            nbytes = ways[min(2, len(ways) - 1)][0]
            usual.append(replace(case, node=region))
            less.append(replace(case, node=replace(region, attrs={**region.attrs, SCRATCH: nbytes})))
    assert len(usual) > 1
    library = Library(tmp_path, [*usual, *less], target, threads)
    for index, case in enumerate(usual):
        for tasks in range(1, threads + 1):
            found = library.run(len(usual) + index, tasks)
            if name != "bf16":
                compare(case, found, f"{tasks} tasks")
            for expected, one in zip(library.run(index, tasks), found, strict=True):
                np.testing.assert_array_equal(one, expected)
