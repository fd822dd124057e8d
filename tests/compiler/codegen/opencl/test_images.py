"""Operands that are read as images: the same numbers to the bit as from buffers, emulated and on the device that is
here, with images and without."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.codegen.common.region import as_region
from pockengine.codegen.gpu.contraction import kernels
from pockengine.codegen.gpu.launches import measured_blocks, texel_blocks
from pockengine.codegen.opencl.backend import OpenCLBackend
from pockengine.codegen.opencl.text import launches_c
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.ir import Array, Builder, DType, Node, TensorType
from pockengine.ops import Emitter, Sample
from pockengine.passes.winograd_marks import WINOGRAD
from pockengine.plan.program import Lowered, Texels
from pockengine.plan.space import BLOCKS, Space
from pockengine.targets import Target, get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.cuda.test_libraries import RECIPE, network
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary, rewritten
from tests.compiler.codegen.gpu.test_emulated import ends
from tests.compiler.codegen.harness import Case, region_case, sample_case
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.codegen.opencl.library import Device, needs_device
from tests.compiler.codegen.opencl.test_halves import stored_cases
from tests.compiler.codegen.test_narrow import matmul
from tests.sweeps import some

IMAGES = get("snapdragon-8-gen-3-gpu")
assert IMAGES.gpu is not None
BUFFERS = replace(IMAGES, gpu=replace(IMAGES.gpu, image_reads=False))


def cases() -> list[Case]:
    """Every orientation around the edges of tiles, sums in parts, images with windows, epilogues, 16-bit floats."""
    rng = np.random.default_rng(3)
    found = [matmul(size, a, b) for size in ((72, 40, 104), (33, 16, 300)) for a, b in product((False, True), repeat=2)]
    found += [matmul((24, 40, 64), False, True, "3,"), matmul((64, 32, 8192), True, False)]
    attrs = {"stride": (2, 1), "pad": (1, 0, 2, 1), "dilation": (1, 2), "groups": 1, "layout": "NHWC"}
    for op, shapes, extra in (
        ("conv2d", ("f32[2,9,7,24]", "f32[40,24,3,2]"), {}),
        ("conv2d_dx", ("f32[2,5,6,40]", "f32[40,24,3,2]"), {"size": (9, 7)}),
        ("conv2d_dw", ("f32[2,9,7,24]", "f32[2,5,6,40]"), {"kernel": (3, 2)}),
        ("conv2d", ("f32[1,6,6,32]", "f32[16,8,1,1]"), {"stride": (1, 1), "pad": (0, 0, 0, 0), "groups": 4}),
    ):
        found.append(sample_case(op, Sample(shapes, {**attrs, **extra}), rng))
    found = [geometries.with_epilogue(case, rng) if i % 3 == 1 else case for i, case in enumerate(found)]
    return [*found, *stored_cases()]


def images_of(lowered: Lowered) -> list[int]:
    """Which operands are read as images, of all calls."""
    return [map.operand for call in lowered.calls for map in call.kernel.maps if isinstance(map, Texels)]


def _library(folder: Path, drawn: Sequence[Case], target: Target) -> EmulatedLibrary:
    folder.mkdir()
    lower = backends.get("opencl").lower
    flags = ("-O1", "-ffp-contract=off")
    return EmulatedLibrary(
        folder, drawn, get("host"), 1, flags, lambda node, _, threads: lower(node, target, threads), "opencl"
    )


def filtered_case() -> Case:
    """A convolution for which minimal filtering is the model's choice: products of what lies in scratch memory."""
    attrs = {"stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1, "layout": "NHWC", WINOGRAD: True}
    return sample_case("conv2d", Sample(("f32[1,28,28,128]", "f32[128,128,3,3]"), attrs), np.random.default_rng(4))


def test_filtered_convolutions_read_images_of_scratch_memory(tmp_path: Path) -> None:
    case = filtered_case()
    with_images, without = (
        _library(tmp_path / str(number), [case], target) for number, target in enumerate((IMAGES, BUFFERS))
    )
    assert images_of(with_images.lowered[0]) == [0, 1] and len(with_images.lowered[0].calls) == 4
    np.testing.assert_array_equal(with_images.run(0, 1)[0], without.run(0, 1)[0])


@pytest.mark.parametrize("compute", ["f32", "f16"])
def test_results_are_those_of_buffers_to_the_bit(compute: str, tmp_path: Path) -> None:
    drawn = cases()
    with_images, without = (
        _library(tmp_path / str(number), drawn, target.computing(compute))
        for number, target in enumerate((IMAGES, BUFFERS))
    )
    assert not any(map(images_of, without.lowered))
    read = [images_of(lowered) for lowered in with_images.lowered]
    assert [0, 1] in read and [0] in read and [] in read
    for index, case in enumerate(drawn):
        for one, other in zip(with_images.run(index, 1), without.run(index, 1), strict=True):
            np.testing.assert_array_equal(one, other, case.label)


def test_what_does_not_lie_in_texels_is_read_from_buffers() -> None:
    lower = backends.get("opencl").lower
    wanted = {(64, 64, 64): [0, 1], (64, 64, 65): [1], (64, 66, 64): [0], (66, 64, 64): [0, 1]}
    assert {size: images_of(lower(matmul(size, False, False).node, IMAGES, 1)) for size in wanted} == wanted
    narrow = {size: images_of(lower(_of_f16(size), IMAGES, 1)) for size in ((64, 64, 64), (64, 60, 64), (64, 64, 60))}
    assert list(narrow.values()) == [[0, 1], [0], [1]]


def _of_f16(size: tuple[int, int, int]) -> Node:
    (m, n, k), builder = size, Builder("narrow")
    e = Emitter(builder)
    a, b = (builder.input(name, TensorType(DType.F16, shape)) for name, shape in (("a", (m, k)), ("b", (k, n))))
    builder.outputs = {"y": e.matmul(e.op("cast", a, to="f32"), e.op("cast", b, to="f32"))}
    return region_case(builder.finish(), "contraction", []).node


def test_a_texel_beyond_the_operand_is_seen(tmp_path: Path) -> None:
    case = matmul((64, 64, 64), False, False)
    beyond = rewritten(
        lambda node, _, threads: OpenCLBackend().lower(node, IMAGES, threads), "TEXEL(0, ", "TEXEL(0, 1 + "
    )
    library = EmulatedLibrary(tmp_path, [case], get("host"), 1, ("-O1",), beyond, "opencl")
    assert ends(lambda: library.run(0, 1))


def test_tuning_may_choose_either() -> None:
    """The model takes images where the GPU is said to read them quicker."""
    node = as_region(matmul((64, 64, 64), False, False).node)
    for target, first in ((IMAGES, True), (BUFFERS, False), (get("mali-g610"), False)):
        tunable = OpenCLBackend().tunable(node, target, 1)
        assert tunable is not None
        choices = [one.choice for one in tunable.candidates(wide=True)]
        assert ("by images" in choices[0].describe()) == first
        for choice in choices:
            assert isinstance(choice, kernels.Products)
            assert bool(images_of(tunable.lower(choice))) == ("by images" in choice.describe())
        assert {bool(images_of(tunable.lower(choice))) for choice in choices} == {True, False}
        assert any("by images" in one.choice.describe() for one in tunable.candidates()) == first


def test_kernels_say_which_blocks_they_read_images_of() -> None:
    node = matmul((64, 64, 64), False, False).node
    read, words = OpenCLBackend().lower(node, IMAGES, 1).calls, OpenCLBackend().lower(node, BUFFERS, 1).calls
    for calls, wanted in ((read, 1 << BLOCKS.index(Space.INPUT)), (words, 0)):
        assert f"pock_image_blocks = {wanted};" in launches_c(calls, "", measured_blocks(calls))


def test_no_image_lies_in_a_block_that_its_kernel_writes() -> None:
    """A weight is read as one where results go to the arena, its update's operands from there where it is changed."""
    found = list[Planned]()
    target = replace(get("host"), gpu=IMAGES.gpu)
    compile(network(), RECIPE, target, backend="opencl", inspect=lambda made, _: found.append(made))
    blocks = texel_blocks(found[0].programs)
    spaces = {space for lies in blocks.values() for space in lies}
    assert {Space.PARAM, Space.INPUT, None} <= spaces
    for program in found[0].programs.values():
        for step in program.steps:
            written = {program.locations[value].space for value in step.node.outputs}
            for call in step.lowered.calls:
                lies = blocks[call.kernel.symbol]
                assert written.isdisjoint(lies) and (not call.workspace or Space.ARENA not in lies)
                for one, space in zip(call.kernel.maps, lies, strict=True):
                    assert space in (None, program.locations[call.operands[one.operand]].space)


@needs_device
@pytest.mark.parametrize("compute", some(["f32", "f16"], 2, 1))
def test_on_the_device_that_is_here(compute: str, tmp_path: Path) -> None:
    """As multiplications and additions may be fused in one kernel and not in another, no sum has anything to round."""
    drawn = [replace(case, inputs=tuple(map(_few_bits, case.inputs))) for case in some(cases(), 6)]
    ways = ((IMAGES, True), (IMAGES, False), (BUFFERS, True))
    results = [
        apart(_run, drawn, tmp_path / str(number), target.computing(compute), images)
        for number, (target, images) in enumerate(ways)
    ]
    for index, case in enumerate(drawn):
        for outputs in zip(*(found[index] for found in results), strict=True):
            for other in outputs[1:]:
                np.testing.assert_array_equal(outputs[0], other, case.label)


def _few_bits(array: Array) -> Array:
    """Numbers whose sums of products are exact, in any order."""
    return (np.round(array.astype(np.float32) * 4) / 4).astype(array.dtype)


def _run(drawn: Sequence[Case], folder: Path, target: Target, images: bool) -> list[list[Array]]:
    os.environ["POCK_KERNEL_CACHE"] = ""
    folder.mkdir()
    device = Device(folder, drawn, target, images)
    found = [device.run(index) for index in range(len(drawn))]
    device.close()
    return found
