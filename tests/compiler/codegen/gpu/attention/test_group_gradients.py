"""Gradients of attention by Hopper's warpgroups: every shape against the reference, waits, the compiler's report."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.gpu.attention.groups.shapes import MOST_BACKWARD, is_raw
from pockengine.ir import DType, Node
from pockengine.plan.program import Lowered
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.attention.test_groups import (
    SAMPLES,
    check_report,
    is_wrong,
    library_of,
    long_cases,
    lowered,
)
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.gpu.test_attention import stored
from tests.compiler.codegen.gpu.test_emulated import ends
from tests.compiler.codegen.harness import Case, compare, sample_case
from tests.compiler.codegen.test_attention import _backward
from tests.sweeps import some


def _is_narrow(case: Case) -> bool:
    return max(value.type.shape[-1] for value in case.node.inputs[:3]) <= MOST_BACKWARD


def cases(dtype: DType) -> list[Case]:
    rng = np.random.default_rng(7)
    forward = [case for case in (sample_case("attention", one, rng) for one in SAMPLES) if _is_narrow(case)]
    return [stored(_backward(case, rng), dtype) for case in forward]


@pytest.mark.parametrize("dtype, near", [(DType.BF16, 2e-2), (DType.F16, 3e-3)], ids=["bf16", "f16"])
def test_every_shape_gives_gradients(dtype: DType, near: float, tmp_path: Path) -> None:
    chosen = cases(dtype)
    library = library_of(tmp_path, chosen, dtype.value)
    for index, case in enumerate(chosen):
        _, *made = library.lowered[index].calls
        assert [len(call.kernel.maps) for call in made] == ([4, 4] if is_raw(case.node) else [0, 0])
        compare(case, library.run(index, 1), dtype.value, near, near)
    assert sum(is_raw(case.node) for case in chosen) == len(chosen) - 2 >= 6


QUERIES, KEYS = 1, 2
"""Calls of a gradient."""
EARLY = (
    (QUERIES, "WGMMA_WAIT(1);", "WGMMA_WAIT(3);"),
    (QUERIES, "WGMMA_WAIT(1);", "WGMMA_WAIT(2);"),
    (QUERIES, "WGMMA_WAIT(0);", "WGMMA_WAIT(1);"),
    (QUERIES, "MBARRIER_WAIT(&keys_empty[stage], parity ^ 1);", ""),
    (QUERIES, "MBARRIER_WAIT(&queries_full[0], 0);", ""),
    (QUERIES, "MBARRIER_WAIT(&dys_full[0], 0);", ""),
    (QUERIES, "MBARRIER_WAIT(&keys_full[stage], parity);", ""),
    (QUERIES, "MBARRIER_WAIT(&values_full[stage], parity);", ""),
    (QUERIES, "MBARRIER_ARRIVE(&keys_empty[before]);", "MBARRIER_ARRIVE(&keys_empty[stage]);"),
    (QUERIES, "MBARRIER_ARRIVE(&values_empty[stage]);", ""),
    (KEYS, "WGMMA_WAIT(1);", "WGMMA_WAIT(2);"),
    (KEYS, "WGMMA_WAIT(0);", "WGMMA_WAIT(1);"),
    (KEYS, "MBARRIER_WAIT(&queries_empty[stage], parity ^ 1);", ""),
    (KEYS, "MBARRIER_WAIT(&dys_empty[stage], parity ^ 1);", ""),
    (KEYS, "MBARRIER_WAIT(&keys_full[0], 0);", ""),
    (KEYS, "MBARRIER_WAIT(&values_full[0], 0);", ""),
    (KEYS, "MBARRIER_WAIT(&queries_full[stage], parity);", ""),
    (KEYS, "MBARRIER_WAIT(&dys_full[stage], parity);", ""),
    (KEYS, "MBARRIER_INIT(&dys_full[i], 33);", "MBARRIER_INIT(&dys_full[i], 1);"),
    (KEYS, "MBARRIER_ARRIVE(&dys_full[stage]);", ""),
    (KEYS, "MBARRIER_ARRIVE(&queries_empty[before]);", ""),
    (KEYS, "query < 700 ? scratch[place] : 0.0f", "0.0f"),
)


@pytest.mark.parametrize("which, words, others", EARLY, ids=str)
def test_what_is_read_or_written_too_early_is_seen(which: int, words: str, others: str, tmp_path: Path) -> None:
    case = cases(DType.BF16)[1]

    def lower(node: Node, _target: object, _threads: int) -> Lowered:
        made = lowered(node, "bf16")
        calls, text = list(made.calls), made.calls[which].kernel.source.replace(words, others)
        assert text != calls[which].kernel.source
        calls[which] = replace(calls[which], kernel=replace(calls[which].kernel, source=text))
        return replace(made, calls=tuple(calls))

    library = EmulatedLibrary(tmp_path, [case], get("host"), 1, ("-O1",), lower, "cuda")
    run = partial(library.run, 0, 1)
    assert ends(run) or is_wrong(case, run)


@needs_compiler
@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16], ids=["bf16", "f16"])
def test_warpgroups_multiply_without_spills_or_turns(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    raw = [case for case in long_cases() if _is_narrow(case) and is_raw(case.node)]
    for case in some(raw, 3, int(dtype is DType.F16)):
        _, *made = lowered(stored(_backward(case, rng), dtype).node, dtype.value).calls
        for call in made:
            check_report(call)
