"""Attention by Hopper's warpgroups: every shape against the reference, what waits are for, the compiler's report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.ir import DType, Node
from pockengine.ops import Sample
from pockengine.plan.program import Call, Grid, Lowered
from pockengine.targets import get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary, rewritten
from tests.compiler.codegen.gpu.test_attention import stored
from tests.compiler.codegen.gpu.test_emulated import ends
from tests.compiler.codegen.gpu.test_matrix import HGMMA, UTMALDG, opcodes
from tests.compiler.codegen.harness import Case, compare, expected_outputs, sample_case
from tests.sweeps import some

HGMMA_HELD = 0xDF0
"""What disassemblers call HGMMA as well: it multiplies rows that a warpgroup holds in registers."""
Shape = tuple[int, ...]


def _heads(shape: Shape, inside: bool) -> str:
    batch, heads, time, depth = shape
    return f"f32[{batch},{time},{heads},{depth}]" if inside else f"f32[{batch},{heads},{time},{depth}]"


def sample(queries: Shape, keys: Shape, width: int, masks: tuple[str, ...] = (), **attrs: object) -> Sample:
    """`queries` and `keys` are batch, heads, time and depth."""
    inside = bool(attrs.get("heads_inside"))
    operands = (_heads(queries, inside), _heads(keys, inside), _heads((*keys[:3], width), inside))
    return Sample((*operands, *masks), {"scale": 0.2, "causal": False, **attrs})


SAMPLES = (
    sample((1, 2, 200, 64), (1, 1, 333, 64), 64),
    sample((1, 1, 700, 64), (1, 1, 700, 64), 64, causal=True),
    sample((2, 4, 130, 128), (2, 2, 390, 128), 128, causal=True),
    sample((2, 2, 257, 32), (2, 1, 300, 32), 48, heads_inside=True, causal=True),
    sample((1, 1, 330, 16), (1, 1, 140, 16), 80, causal=True),
    sample((1, 2, 40, 80), (1, 2, 333, 80), 16),
    sample((1, 1, 300, 96), (1, 1, 20, 96), 112),
    sample((1, 1, 72, 192), (1, 1, 200, 192), 128, causal=True),
    sample((1, 1, 70, 256), (1, 1, 150, 256), 256, scale=0.05),
    sample((1, 2, 150, 64), (1, 1, 290, 64), 64, ("bool[1,1,150,290]", "f32[290]"), softcap=2.0, causal=True),
    sample((1, 1, 70, 160), (1, 1, 100, 160), 160, ("f32[1,1,70,100]",)),
    sample((1, 1, 70, 64), (1, 1, 290, 64), 64, scale=-0.1),
)
"""Several tiles of queries and of keys, parts of them, fewer keys than a tile; grouped heads; fewer and more keys than
queries, of which some see nothing; one warpgroup; wide heads; masks and a bound."""
H100 = get("h100")


def cases(dtype: DType) -> list[Case]:
    rng = np.random.default_rng(7)
    return [stored(sample_case("attention", one, rng), dtype) for one in SAMPLES]


def lowered(node: Node, compute: str) -> Lowered:
    return backends.get("cuda").lower(node, replace(H100, compute=compute), 1)


def library_of(folder: Path, chosen: list[Case], compute: str) -> EmulatedLibrary:
    return EmulatedLibrary(
        folder, chosen, get("host"), 1, ("-O1",), lambda node, _target, _threads: lowered(node, compute), "cuda"
    )


@pytest.mark.parametrize("dtype, near", [(DType.BF16, 2e-2), (DType.F16, 3e-3)], ids=["bf16", "f16"])
def test_every_shape_gives_results_and_levels(dtype: DType, near: float, tmp_path: Path) -> None:
    chosen = cases(dtype)
    library = library_of(tmp_path, chosen, dtype.value)
    for index, case in enumerate(chosen):
        (call,) = library.lowered[index].calls
        assert "WGMMA_HELD" in call.kernel.source and len(call.kernel.maps) == 3
        found = library.run(index, 1)
        compare(case, found, dtype.value, near, near)
        np.testing.assert_allclose(found[1], expected_outputs(case)[1], 1e-4, 1e-4, err_msg=case.label)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_what_is_stored_otherwise_is_multiplied_by_warps(dtype: DType) -> None:
    case = sample_case("attention", SAMPLES[0], np.random.default_rng(0))
    made = lowered(case.node if dtype is DType.F32 else stored(case, dtype).node, "bf16")
    assert not made.calls[0].kernel.maps and "MMA_BF16" in made.calls[0].kernel.source


@pytest.mark.parametrize("target", ["rtx-4090", "jetson-agx-orin"])
def test_other_gpus_have_no_warpgroups(target: str) -> None:
    node = cases(DType.BF16)[0].node
    made = backends.get("cuda").lower(node, replace(get(target), compute="bf16"), 1)
    assert not made.calls[0].kernel.maps and "WGMMA" not in made.calls[0].kernel.source


EARLY = (
    ("WGMMA_WAIT(1);", "WGMMA_WAIT(2);"),  # scores
    ("WGMMA_WAIT(0);", "WGMMA_WAIT(1);"),  # results, and weights that are still read
    ("MBARRIER_WAIT(&keys_empty[stage], parity ^ 1);", ""),
    ("MBARRIER_WAIT(&values_empty[stage], parity ^ 1);", ""),
    ("MBARRIER_WAIT(&queries_full[0], 0);", ""),
    ("MBARRIER_WAIT(&keys_full[stage], parity);", ""),
    ("MBARRIER_WAIT(&values_full[before], before_parity);", ""),
    ("MBARRIER_INIT(&keys_full[i], 1);", ""),
    ("MBARRIER_INIT(&keys_empty[i], 8);", "MBARRIER_INIT(&keys_empty[i], 4);"),
    ("MBARRIER_EXPECT(&values_full[stage], 16384);", ""),
    ("MBARRIER_ARRIVE(&keys_empty[stage]);", ""),
    ("MBARRIER_ARRIVE(&values_empty[before]);", ""),
    ("TURN_GIVE(1, 256);", ""),
    ("TURN_GIVE(2 - group, 256);", ""),
    ("WGMMA_BEGIN;", ""),
    ("WGMMA_BEGUN;", ""),
)


@pytest.mark.parametrize("words, others", EARLY, ids=str)
def test_what_is_read_or_written_too_early_is_seen(words: str, others: str, tmp_path: Path) -> None:
    _is_seen(words, others, tmp_path)


def test_values_that_are_given_back_too_early_are_seen(tmp_path: Path) -> None:
    gives = "if (THREAD % 32 == 0) {\n                    MBARRIER_ARRIVE(&values_empty[before]);\n                }"
    waits = "WGMMA_WAIT(0);\n                "
    _is_seen(waits + gives, gives + waits, tmp_path)


def test_weights_that_are_changed_too_early_are_seen(tmp_path: Path) -> None:
    changed = "weights[0][0] = 0;"
    _is_seen("WGMMA_WAIT(1);", f"{changed} WGMMA_WAIT(1);", tmp_path)


def _is_seen(words: str, others: str, folder: Path) -> None:
    case = cases(DType.BF16)[1]
    lower = rewritten(lambda node, _target, _threads: lowered(node, "bf16"), words, others)
    library = EmulatedLibrary(folder, [case], get("host"), 1, ("-O1",), lower, "cuda")
    run = partial(library.run, 0, 1)
    assert ends(run) or is_wrong(case, run)


def is_wrong(case: Case, run: Callable[[], list[np.ndarray]]) -> bool:
    with pytest.raises(AssertionError):
        compare(case, run(), "", 2e-2, 2e-2)
    return True


MASKS = ("bool[1,1,1,300]", "f32[1,2,300,300]")
FORMS: tuple[tuple[tuple[str, ...], dict[str, object]], ...] = (
    ((), {"causal": True}),
    ((), {"causal": False}),
    (MASKS, {"softcap": 3.0, "causal": True}),
    (MASKS, {"heads_inside": True}),
)


def long_cases() -> list[Case]:
    """Of every width."""
    rng, found = np.random.default_rng(0), list[Case]()
    for depth in (32, 64, 80, 96, 112, 128, 192, 256):
        for masks, attrs in FORMS:
            one = sample((1, 2, 300, depth), (1, 1, 300, depth), depth, masks, **attrs)
            found.append(sample_case("attention", one, rng))
    return found


@needs_compiler
@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16], ids=["bf16", "f16"])
def test_warpgroups_multiply_without_spills_or_turns(dtype: DType) -> None:
    """The compiler tells where it lets products wait for each other."""
    chosen = [stored(case, dtype) for case in some(long_cases(), 3, int(dtype is DType.F16))]
    for call in [call for case in chosen for call in lowered(case.node, dtype.value).calls]:
        check_report(call)


def check_report(call: Call) -> None:
    """No spills, products that go on together, by operands in shared memory and in registers, and boxes."""
    gpu, launch = H100.gpu, call.launch
    assert gpu is not None and isinstance(launch, Grid)
    made = compiled(call.kernel.symbol, call.kernel.source, parsed(gpu.arch))
    assert (made.spill_bytes, made.warnings) == (0, ()), call.kernel.source.splitlines()[0]
    assert made.registers * launch.threads <= 65536 and call.kernel.shared <= gpu.block_shared_bytes
    assert {HGMMA, HGMMA_HELD, UTMALDG} <= opcodes(made.image)
