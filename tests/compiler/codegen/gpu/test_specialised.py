"""Products whose tiles are copied by the GPU's engine: many tiles a block, batches, and what waits are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.gpu.contraction import kernels, specialised
from pockengine.codegen.gpu.contraction.kernels import Pick, Products
from pockengine.ir import Builder, DType, Node, TensorType
from pockengine.ops import Emitter
from pockengine.plan.program import Grid, Lowered, TensorMap
from pockengine.targets import Target, get
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.gpu.test_emulated import ends
from tests.compiler.codegen.gpu.test_rings import H200, TURNS, choices, convolution, hasty, matmul
from tests.compiler.codegen.harness import Case, compare, draw, region_case

LARGE, SMALL = (f"{size} warpgroups and a copying one" for size in ("128 x 256 by 2", "64 x 128 by 1"))
PAIRS = [f"{size} by 2 warpgroups and a copying one, in pairs" for size in ("128 x 256", "128 x 128")]


def small_gpu(compute: str = "bf16", multiprocessors: int = 3) -> Target:
    """A GPU with the units of Hopper's and few multiprocessors: a block makes many tiles."""
    gpu = get("h200").gpu
    assert gpu is not None
    return replace(get("h200"), compute=compute, gpu=replace(gpu, multiprocessors=multiprocessors))


def _library(
    folder: Path, cases: list[Case], way: str, target: Target, parts: int = 1, tail: bool = False
) -> EmulatedLibrary:
    """The cases, made in one way."""
    choice = Products((Pick(f"{way} {target.compute}", parts, tail),), target.compute)

    def lower(node: Node, _target: object, _threads: int) -> Lowered:
        made = kernels.lower(node, target, choice)
        assert made.calls[0].kernel.maps and len(made.calls) == (1 if parts == 1 else 2)
        return made

    return EmulatedLibrary(folder, cases, get("host"), 1, ("-O1",), lower, "cuda")


@pytest.mark.parametrize("compute", ["bf16", "f16"])
@pytest.mark.parametrize("parts", [1, 3])
def test_blocks_go_from_tile_to_tile(parts: int, compute: str, tmp_path: Path) -> None:
    """Of sums that are cut, too: more tiles than blocks, and more steps than there is room for tiles."""
    cases = [matmul((200, 392, 1288), turns, DType(compute)) for turns in TURNS[1:3]]
    library = _library(tmp_path, cases, SMALL, small_gpu(compute), parts)
    launch = library.lowered[0].calls[0].launch
    assert isinstance(launch, Grid)
    assert (launch.blocks, launch.pieces) == (3, 4 * 4 * parts)
    for index, case in enumerate(cases):
        compare(case, library.run(index, 1), "", 1e-4, 2e-5)


@pytest.mark.parametrize("way", PAIRS)
@pytest.mark.parametrize("parts", [1, 2])
def test_pairs_of_blocks_share_tiles(way: str, parts: int, tmp_path: Path) -> None:
    """An odd number of rows of tiles, and batches."""
    cases = [matmul((304, 520, 456), turns) for turns in TURNS]
    library = _library(tmp_path, cases, way, small_gpu(), parts)
    launch = library.lowered[0].calls[0].launch
    assert isinstance(launch, Grid)
    assert (launch.blocks, launch.pieces) == (2, 2 * 2 * -(-520 // int(way.split()[2])) * parts)
    assert all("TENSOR_COPY_BOTH" in one.calls[0].kernel.source for one in library.lowered)
    for index, case in enumerate(cases):
        compare(case, library.run(index, 1), case.label, 1e-4, 2e-5)


TAILS = ((SMALL, 5, 2, (136, 392, 1288)), (LARGE, 5, 3, (304, 328, 1288)), (PAIRS[0], 8, 2, (304, 600, 1288)))
"""A way, multiprocessors, parts of the last tiles' sums, and the size of a product."""


@pytest.mark.parametrize("way, multiprocessors, parts, size", TAILS, ids=["64 x 128", "128 x 256", "pairs"])
def test_the_last_tiles_are_made_by_all_multiprocessors(
    way: str, multiprocessors: int, parts: int, size: tuple[int, int, int], tmp_path: Path
) -> None:
    """Sums of the others are whole."""
    cases, target = [matmul(size, turns) for turns in TURNS[1:3]], small_gpu("bf16", multiprocessors)
    library = _library(tmp_path, cases, way, target, parts, tail=True)
    main, last = library.lowered[0].calls
    assert isinstance(main.launch, Grid) and isinstance(last.launch, Grid)
    whole = kernels.lower(cases[0].node, target, Products((Pick(f"{way} bf16", 1),), "bf16")).calls[0].launch
    assert isinstance(whole, Grid)
    assert whole.pieces < main.launch.pieces < whole.pieces * parts
    assert library.lowered[0].workspace_bytes < 4 * size[0] * size[1] * parts
    for index, case in enumerate(cases):
        compare(case, library.run(index, 1), case.label, 1e-4, 2e-5)


def test_a_last_turn_that_is_nearly_empty_is_cut() -> None:
    """172 tiles for 132 multiprocessors."""
    case = matmul((512, 11008, 4096), TURNS[1])
    best = kernels.choices(case.node, H200, wide=False)[0][0]
    assert "of the last tiles" in best.describe()
    calls = kernels.lower(case.node, H200, best).calls
    assert len(calls) == 2 and kernels.lower(case.node, H200, best) == kernels.lower(case.node, H200)


def groups() -> Case:
    """A convolution without a neighbourhood, in three groups: the channels of one lie between those of others."""
    builder = Builder("body")
    e, rng = Emitter(builder), np.random.default_rng(6)
    x = builder.input("x", TensorType(DType.BF16, (2, 5, 7, 96)))
    w = builder.input("w", TensorType(DType.BF16, (3 * 40, 32, 1, 1)))
    attrs = {"stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1), "groups": 3, "layout": "NHWC"}
    builder.outputs = {"y": e.op("conv2d", e.cast(x, DType.F32), e.cast(w, DType.F32), **attrs)}
    return region_case(builder.finish(), "contraction", [draw(value.type, rng) for value in builder.inputs], "groups")


def test_batches_and_groups(tmp_path: Path) -> None:
    cases = [*(matmul((72, 136, 40), turns, batch=(2, 3)) for turns in TURNS), groups()]
    library = _library(tmp_path, cases, SMALL, small_gpu())
    for index, case in enumerate(cases):
        compare(case, library.run(index, 1), case.label, 1e-4, 2e-5)
    maps = [[map for map in one.calls[0].kernel.maps if isinstance(map, TensorMap)] for one in library.lowered]
    assert [(map.extents, map.box) for map in maps[0]] == [((40, 72, 6), (64, 64, 1)), ((136, 40, 6), (64, 64, 1))]
    assert any(map.extents == (32, 3, 70) and map.strides == (64, 192) for map in maps[4])


def _is_offered(case: Case) -> bool:
    return any("copying" in choice.describe() for choice in choices(case, H200))


def test_what_the_engine_cannot_read_is_copied_by_threads() -> None:
    assert _is_offered(matmul((64, 64, 64), TURNS[0]))
    assert not any("pairs" in one.describe() for one in choices(matmul((128, 64, 64), TURNS[0]), H200)), "one row"
    assert not _is_offered(matmul((64, 64, 68), TURNS[1])), "rows that do not begin at multiples of 16 bytes"
    assert not _is_offered(convolution()), "an image"
    assert not _is_offered(_windows()), "rows that overlap"
    assert not any("copying" in one.describe() for one in choices(matmul((64, 64, 64), TURNS[0]), _ada()))


def _windows() -> Case:
    """A gradient that reads each three neighbours as one row."""
    builder = Builder("body")
    e = Emitter(builder)
    x = builder.input("x", TensorType(DType.BF16, (1, 1, 130, 64)))
    dy = builder.input("dy", TensorType(DType.BF16, (1, 1, 128, 64)))
    attrs = {"stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1), "groups": 1, "layout": "NHWC"}
    wide = (e.cast(value, DType.F32) for value in (x, dy))
    builder.outputs = {"dw": e.op("conv2d_dw", *wide, kernel=(1, 3), **attrs)}
    arrays = [draw(value.type, np.random.default_rng(8)) for value in builder.inputs]
    return region_case(builder.finish(), "contraction", arrays, "windows")


def _ada() -> Target:
    return replace(get("rtx-4090"), compute="bf16")


def test_a_block_has_room_for_its_tiles() -> None:
    gpu = get("h200").gpu
    assert gpu is not None
    for shape in specialised.SHAPES:
        assert shape.nbytes <= gpu.block_shared_bytes
        assert shape.stages_kept > 2


EARLY = (
    ("WGMMA_WAIT(0)", "WGMMA_WAIT(1)"),  # sums
    ("WGMMA_WAIT(1)", "WGMMA_WAIT(2)"),  # a tile that is given back
    ("MBARRIER_WAIT(&empty[stage], parity ^ 1)", ""),  # or is not waited for
)


@pytest.mark.parametrize("way", [LARGE, PAIRS[0]])
@pytest.mark.parametrize("words, others", EARLY, ids=str)
def test_what_is_read_or_written_too_early_is_seen(way: str, words: str, others: str, tmp_path: Path) -> None:
    library, case = hasty(tmp_path, way, words, others, (136, 72, 1096))
    run = partial(library.run, 0, 1)
    assert ends(run) or _is_wrong(case, run)


def _is_wrong(case: Case, run: Callable[[], list[np.ndarray]]) -> bool:
    with pytest.raises(AssertionError):
        compare(case, run())
    return True


UNTOLD = (
    "MBARRIER_WAIT(&full[stage], parity);",
    "MBARRIER_INIT(&full[i], 1);",
    "MBARRIER_EXPECT(&full[stage], 49152);",
    "MBARRIER_ARRIVE(&empty[(stage + 3) % 4]);",
)


def test_a_tile_of_both_blocks_is_given_back_by_both(tmp_path: Path) -> None:
    words = "MBARRIER_ARRIVE_AT(&empty[(stage + 3) % 4], THREAD % 32)"
    for others in ("MBARRIER_ARRIVE_AT(&empty[(stage + 3) % 4], BLOCK % 2)", ""):
        library, case = hasty(tmp_path, PAIRS[0], words, others, (136, 72, 1096))
        run = partial(library.run, 0, 1)
        assert ends(run) or _is_wrong(case, run)


@pytest.mark.parametrize("words", UNTOLD)
def test_a_barrier_that_nobody_minds_ends_the_process(words: str, tmp_path: Path) -> None:
    """Instead of waiting for ever."""
    library, _ = hasty(tmp_path, LARGE, words, "", (136, 72, 1096))
    assert ends(lambda: library.run(0, 1))
