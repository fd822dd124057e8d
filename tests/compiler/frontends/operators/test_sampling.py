"""Resize, GridSample and RoiAlign against onnxruntime; gradients of what models train through against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch.nn import functional

from pockengine.autodiff import backward, prepare
from pockengine.frontends import load
from pockengine.interp import evaluate
from pockengine.ir import Array, Builder, Graph
from pockengine.ops import Emitter

from ..onnx_models import save, single

RNG = np.random.default_rng(0)
IMAGE = RNG.uniform(-2, 2, (2, 3, 6, 7)).astype(np.float32)
GRID = RNG.uniform(-1.3, 1.3, (2, 4, 5, 2)).astype(np.float32)
COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _imported(tmp_path, op: str, arrays: list[Array | None], constants: tuple[int, ...], **attrs: Any):
    proto, feeds = single(op, arrays, constants, **attrs)
    path = save(proto, tmp_path / "model.onnx")
    return load(path), feeds, path


def _agrees(tmp_path, op: str, arrays: list[Array | None], constants: tuple[int, ...] = (), **attrs: Any) -> None:
    graph, feeds, path = _imported(tmp_path, op, arrays, constants, **attrs)
    (ours,), (theirs,) = evaluate(graph, feeds).values(), onnxruntime.InferenceSession(path).run(None, feeds)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)


def _resize(tmp_path, sizes: tuple[int, ...], **attrs: Any) -> None:
    wanted = np.array((*IMAGE.shape[:2], *sizes), np.int64)
    _agrees(tmp_path, "Resize", [IMAGE, None, None, wanted], (3,), **attrs)


@pytest.mark.parametrize("sizes", [(12, 14), (4, 3), (9, 5)], ids=str)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize(tmp_path, mode, coordinates, sizes):
    _resize(tmp_path, sizes, mode=mode, coordinate_transformation_mode=coordinates)


@pytest.mark.parametrize("sizes", [(12, 14), (4, 3), (9, 5)], ids=str)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_resize_to_nearest(tmp_path, rounding, sizes):
    _resize(tmp_path, sizes, mode="nearest", nearest_mode=rounding, coordinate_transformation_mode="asymmetric")


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_without_aliasing(tmp_path, mode):
    _resize(tmp_path, (3, 4), mode=mode, antialias=1)


def test_resize_by_scales(tmp_path):
    scales = np.array([1, 1, 1.7, 0.7], np.float32)
    _agrees(tmp_path, "Resize", [IMAGE, None, scales], (2,), mode="linear")


def test_resize_of_a_region(tmp_path):
    roi = np.array([0, 0, 0.2, -0.1, 1, 1, 1.3, 0.6], np.float32)
    wanted = np.array((2, 3, 5, 6), np.int64)
    attrs = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    _agrees(tmp_path, "Resize", [IMAGE, roi, None, wanted], (1, 3), **attrs)


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_grid_sample(tmp_path, mode, padding, align):
    _agrees(tmp_path, "GridSample", [IMAGE, GRID], mode=mode, padding_mode=padding, align_corners=align)


@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
def test_roi_align(tmp_path, coordinates):
    rois = np.array([[0, 0, 9, 8], [2, 1, 5, 7.5], [-3, 2, 4, 14]], np.float32)
    attrs: dict[str, Any] = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.6}
    arrays: list[Array | None] = [IMAGE, rois, np.array([0, 1, 0], np.int64)]
    _agrees(tmp_path, "RoiAlign", arrays, opset=16, coordinate_transformation_mode=coordinates, **attrs)


def _gradients(graph: Graph, feeds: dict[str, Array], weights: Array, wanted: tuple[int, ...]) -> list[Array]:
    """The gradients of sum(output * weights) for some inputs, which autodiff builds."""
    builder = Builder.extend(graph)
    e, (out,) = Emitter(builder), graph.outputs.values()
    scaled = e.mul(out, e.const(weights))
    builder.outputs = {"loss": e.reshape(e.sum(scaled, range(out.type.rank)), ())}
    values = [graph.inputs[index] for index in wanted]
    builder, found = backward(prepare(builder.finish(), values), "loss", values)
    builder.outputs = {value.name: found[value] for value in values}
    results = evaluate(builder.finish(), feeds)
    return [results[value.name] for value in values]


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradients_of_grid_sample(tmp_path, mode, padding):
    weights = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    attrs = {"mode": {"bilinear": "linear", "bicubic": "cubic"}[mode], "padding_mode": padding}
    graph, feeds, _ = _imported(tmp_path, "GridSample", [IMAGE, GRID], (), **attrs)
    image, grid = (torch.tensor(array, requires_grad=True) for array in (IMAGE, GRID))
    out = functional.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=False)
    expected = torch.autograd.grad((out * torch.tensor(weights)).sum(), (image, grid))
    for ours, theirs in zip(_gradients(graph, feeds, weights, (0, 1)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("mode", "attrs"),
    [
        ("nearest", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ("bilinear", {"mode": "linear"}),
        ("bicubic", {"mode": "cubic"}),
    ],
)
def test_gradients_of_resize(tmp_path, mode, attrs):
    weights = RNG.standard_normal((2, 3, 12, 14)).astype(np.float32)
    wanted = np.array((2, 3, 12, 14), np.int64)
    graph, feeds, _ = _imported(tmp_path, "Resize", [IMAGE, None, None, wanted], (3,), **attrs)
    image = torch.tensor(IMAGE, requires_grad=True)
    out = functional.interpolate(image, size=(12, 14), mode=mode)
    (expected,) = torch.autograd.grad((out * torch.tensor(weights)).sum(), (image,))
    (ours,) = _gradients(graph, feeds, weights, (0,))
    np.testing.assert_allclose(ours, expected.numpy(), rtol=1e-4, atol=1e-4)
