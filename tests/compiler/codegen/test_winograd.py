"""Convolutions by minimal filtering against the interpreter: tiles, splits, odd sizes, paddings 0 to 2 on any
side, between canaries, in place wherever the backend allows it, for aarch64 under qemu, and on an emulated GPU."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.c.tunable import TunableContraction
from pockengine.codegen.c.winograd import kernel as winograd
from pockengine.codegen.c.winograd.plan import Winograd, candidates, fits
from pockengine.codegen.common.region import anchor_of, as_region
from pockengine.codegen.common.winograd.transforms import POINTS, TAPS, transforms_of
from pockengine.codegen.gpu.contraction import kernels
from pockengine.ir import Builder, DType, Node, TensorType
from pockengine.ops import Emitter
from pockengine.passes import allow_winograd
from pockengine.plan.program import SCRATCH, Lowered
from pockengine.targets import Target, get
from tests.compiler.codegen.emulated import EMULATOR, run_emulated
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import TILES, Case, Library, compare, draw, region_case

ERROR = 6e-6
"""Of the largest result."""
SIZES = [((5, 5), (1, 1, 1, 1)), ((4, 7), (0, 0, 0, 0)), ((9, 6), (1, 0, 2, 1)), ((3, 13), (2, 1, 0, 1))]
SANITIZE = ("-O1", "-fsanitize=undefined", "-fno-sanitize=alignment", "-fsanitize-trap=undefined")


def case(
    op: str,
    size: tuple[int, int],
    pad: tuple[int, int, int, int],
    channels: tuple[int, int],
    batch: int,
    stored: DType = DType.F32,
) -> Case:
    """An image of `size` or its gradient, with bias, residual and relu, and the product itself as a second output; the
    weight is stored so."""
    rng = np.random.default_rng(sum(size) + sum(channels))
    inputs, outputs = channels
    small = (size[0] + pad[0] + pad[2] - 2, size[1] + pad[1] + pad[3] - 2)
    image = (batch, *size, inputs) if op == "conv2d" else (batch, *small, outputs)
    attrs = {"stride": (1, 1), "pad": pad, "dilation": (1, 1), "groups": 1, "layout": "NHWC"}
    builder = Builder("body")
    e = Emitter(builder)
    x = builder.input("x", TensorType(DType.F32, image))
    weight = builder.input("w", TensorType(stored, (outputs, inputs, 3, 3)))
    w = weight if stored is DType.F32 else e.cast(weight, DType.F32)
    product = e.op(op, x, w, **attrs, **({"size": size} if op == "conv2d_dx" else {}))
    bias = builder.input("bias", TensorType(DType.F32, product.type.shape[-1:]))
    residual = builder.input("residual", product.type)
    total = e.add(e.add(product, bias), residual)
    builder.outputs = {"y": e.op("clip", total, lo=0.0, hi=1e6), "product": product}
    body = allow_winograd(builder.finish())
    label = f"{op} {size} pad {pad} channels {channels} batch {batch}"
    return region_case(body, "contraction", [draw(value.type, rng) for value in body.inputs], label)


def cases(lanes: int) -> list[Case]:
    return [
        case(op, size, pad, (lanes * (2 + index % 2), lanes * (3 - index % 2)), 1 + index % 3)
        for op in ("conv2d", "conv2d_dx")
        for index, (size, pad) in enumerate(SIZES)
    ]


def planned(given: list[Case], target: Target, threads: int) -> tuple[list[Case], dict[Node, Winograd]]:
    """Each case with a plan; together they have both sizes of tiles, both splits and several widths."""
    found = {}
    for index, one in enumerate(given):
        possible = candidates(anchor_of(one.node), target, threads)
        plans = [plan for plan in possible if plan.outputs == (2, 4)[index % 2]]
        found[one.node] = plans[index // 2 * 3 % len(plans)]
    return given, found


@pytest.mark.parametrize("outputs", sorted(POINTS))
def test_the_transforms_are_exact(outputs: int) -> None:
    """Along one axis, in rational numbers."""
    f = transforms_of(outputs)
    rng = np.random.default_rng(outputs)
    d, g = ([Fraction(int(v)) for v in rng.integers(-9, 10, size)] for size in (f.side, TAPS))
    times = [
        sum((a * b for a, b in zip(i, d, strict=True)), Fraction(0))
        * sum((a * b for a, b in zip(t, g, strict=True)), Fraction(0))
        for i, t in zip(f.image, f.taps, strict=True)
    ]
    found = [sum((a * b for a, b in zip(row, times, strict=True)), Fraction(0)) for row in f.result]
    assert found == [sum((d[i + k] * g[k] for k in range(TAPS)), Fraction(0)) for i in range(outputs)]


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_plans(tmp_path: Path, target: str) -> None:
    device = get(target)
    given, plans = planned(cases(device.vector_bytes // 4), device, 3)
    library = Library(tmp_path, given, device, 3, SANITIZE, lambda node, *_: winograd.lower(node, plans[node]))
    for index in range(len(given)):
        for tasks in (1, 2, 3):
            library.check(index, tasks, rtol=ERROR, atol=ERROR)


def test_many_channels_round_little(tmp_path: Path) -> None:
    given, plans = planned([case("conv2d", (8, 8), (1, 1, 1, 1), (256, 64), batch) for batch in (1, 2)], get("host"), 1)
    library = Library(tmp_path, given, get("host"), 1, lower=lambda node, *_: winograd.lower(node, plans[node]))
    for index in range(len(given)):
        library.check(index, 1, rtol=ERROR, atol=ERROR)


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-user-static")
def test_aarch64(tmp_path: Path) -> None:
    device = get("raspberry-pi-4")
    given, plans = planned(cases(4)[1::2] + cases(4)[2::4], device, 2)

    def lower(node: Node, *_: object) -> Lowered:
        return winograd.lower(node, plans[node])

    for one, outputs in zip(given, run_emulated(tmp_path, given, device, 2, lower), strict=True):
        compare(one, outputs, rtol=ERROR, atol=ERROR)


def test_where_it_is_chosen() -> None:
    """Where it may be used and pays: not with few channels, not in 16 bits, not unless a pass allows it."""
    large, small = (case("conv2d", (28, 28), (1, 1, 1, 1), (c, c), 4).node for c in (128, 5))
    host = get("host")
    plan = TunableContraction(large, host, 2).winograd()
    assert plan is not None and TunableContraction(large, host, 2).candidates()[0].choice == plan.tile
    assert any("winograd" in call.kernel.symbol for call in TunableContraction(large, host, 2).lower().calls)
    assert TunableContraction(large, get("raspberry-pi-5"), 4).winograd() is not None
    assert TunableContraction(small, host, 2).winograd() is None
    assert TunableContraction(large, TILES.computing("bf16"), 2).winograd() is None
    anchor = anchor_of(large)
    plain = Node(anchor.op, anchor.inputs, anchor.outputs, {k: v for k, v in anchor.attrs.items() if k != "winograd"})
    assert not fits(plain, host) and TunableContraction(as_region(plain), host, 2).winograd() is None


@pytest.mark.parametrize("outputs", sorted(POINTS))
def test_on_a_gpu(outputs: int, tmp_path: Path) -> None:
    """Tiles that are whole and cut off, several tiles of products, sums of them in parts."""
    given = [
        *cases(8),
        *(case(op, (9, 10), (1,) * 4, (16, 24), 2, DType.BF16) for op in ("conv2d", "conv2d_dx")),
        case("conv2d", (9, 10), (1, 1, 1, 1), (72, 24), 2),
        case("conv2d", (6, 6), (1,) * 4, (2400, 16), 1),
    ]
    wanted = f"Winograd F({outputs} x {outputs}, 3 x 3), "

    def lower(node: Node, _target: Target, _threads: int) -> Lowered:
        roomy, target = replace(node, attrs={**node.attrs, SCRATCH: 64 << 20}), get("h200")
        found = [one for one, _ in kernels.choices(roomy, target, wide=False) if one.parts[0].way.startswith(wanted)]
        (choice,) = [one for one in found if one.library is None]
        made = kernels.lower(roomy, target, choice)
        assert len(made.calls) == 4 + (choice.parts[0].parts > 1) and made.workspace_bytes
        return made

    library = EmulatedLibrary(tmp_path, given, get("host"), 1, ("-O1",), lower, "cuda")
    assert {len(one.calls) for one in library.lowered} == {4, 5}
    for index in range(len(given)):
        library.check(index, 1, rtol=ERROR, atol=ERROR)


def test_where_a_gpu_chooses_it() -> None:
    """Where products are made in f32, with many channels; with less scratch memory, the convolution itself."""
    large, small = (case("conv2d", (28, 28), (1, 1, 1, 1), (c, c), 4).node for c in (256, 8))
    phone = get("mali-g610")

    def is_filtered(node: Node, target: Target) -> bool:
        return "filter" in kernels.lower(node, target).calls[0].kernel.symbol

    assert is_filtered(large, phone) and not is_filtered(small, phone)
    assert not is_filtered(large, get("h200").computing("bf16")) and is_filtered(large, get("h200"))
    assert not is_filtered(replace(large, attrs={**large.attrs, SCRATCH: 1 << 20}), phone)
    assert all(len(choice.parts) == 1 for choice, _ in kernels.choices(large, phone, wide=True))
