"""Branches and loops that unroll when importing, against ONNX Runtime; others are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from pockengine.errors import UnsupportedOperatorError
from pockengine.frontends import load, survey
from pockengine.frontends.onnx.control_flow import MOST
from pockengine.interp import evaluate
from tests.compiler.frontends.onnx_models import model, save

X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32)
INPUT = {"x": (np.float32, X.shape)}


def graph(
    nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str], **constants: np.ndarray
) -> onnx.GraphProto:
    """A sub-graph on numbers; of its inputs and outputs only those that steer a loop have a shape."""
    steering = {"i": TensorProto.INT64, "given": TensorProto.BOOL, "go_on": TensorProto.BOOL}
    entering, leaving = (
        [
            helper.make_tensor_value_info(name, steering.get(name, TensorProto.FLOAT), [] if name in steering else None)
            for name in names
        ]
        for names in (inputs, outputs)
    )
    return helper.make_graph(
        list(nodes),
        "inside",
        entering,
        leaving,
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )


def check(proto: onnx.ModelProto, folder: Path) -> None:
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})
    path = save(proto, folder / "m.onnx")
    for got, want in zip(evaluate(load(path), {"x": X}).values(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert not survey(path).unsupported


def branches(condition: np.ndarray | None) -> onnx.ModelProto:
    """y = x + 10 if the condition holds, else x * x; None: the condition is an input."""
    then = graph([helper.make_node("Add", ["x", "ten"], ["sum"])], [], ["sum"], ten=np.array([10.0], np.float32))
    other = graph([helper.make_node("Mul", ["x", "x"], ["square"])], [], ["square"])
    node = helper.make_node("If", ["condition"], ["y"], name="choice", then_branch=then, else_branch=other)
    if condition is None:
        return model([node], {**INPUT, "condition": (np.bool_, ())}, ["y"])
    return model([node], INPUT, ["y"], {"condition": condition})


def loop(count: int) -> onnx.ModelProto:
    """v = x; `count` times v = v * 2 + i; every v * v is shown as well. It stops after the round in which i = 3."""
    body = graph(
        [
            helper.make_node("Cast", ["i"], ["number"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["v", "two"], ["twice"]),
            helper.make_node("Add", ["twice", "number"], ["next"]),
            helper.make_node("Mul", ["next", "next"], ["shown"]),
            helper.make_node("Less", ["i", "three"], ["go_on"]),
        ],
        ["i", "given", "v"],
        ["go_on", "next", "shown"],
        two=np.array(2.0, np.float32),
        three=np.array(3, np.int64),
    )
    node = helper.make_node("Loop", ["count", "", "x"], ["y", "all"], name="rounds", body=body)
    return model([node], INPUT, ["y", "all"], {"count": np.array(count, np.int64)})


@pytest.mark.parametrize("condition", [True, False])
def test_a_known_condition_chooses(tmp_path: Path, condition: bool) -> None:
    check(branches(np.array(condition)), tmp_path)


@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_loop_is_written_out(tmp_path: Path, count: int) -> None:
    check(loop(count), tmp_path)


def test_a_branch_inside_a_loop(tmp_path: Path) -> None:
    """The branch reads the loop's own values, and which one is taken changes from round to round."""
    then = graph([helper.make_node("Neg", ["twice"], ["negative"])], [], ["negative"])
    other = graph([helper.make_node("Abs", ["twice"], ["positive"])], [], ["positive"])
    proto = loop(3)
    body = proto.graph.node[0].attribute[0].g
    choice = [
        helper.make_node("Equal", ["i", "one"], ["odd"]),
        helper.make_node("If", ["odd"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("Mul", ["chosen", "next"], ["product"]),
    ]
    body.node.extend(choice)
    body.output[2].name = "product"
    body.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "one"))
    check(proto, tmp_path)


@pytest.mark.parametrize(("axis", "reverse"), [(0, 0), (1, 1)])
def test_a_scan_is_written_out(tmp_path: Path, axis: int, reverse: int) -> None:
    """Running sums along an axis, in either direction."""
    nodes = [helper.make_node("Add", ["sum", "part"], ["new"]), helper.make_node("Mul", ["new", "part"], ["shown"])]
    body = graph(nodes, ["sum", "part"], ["new", "shown"])
    start = np.zeros(X.shape[1 - axis], np.float32)
    attrs: dict[str, Any] = {
        "scan_input_axes": [axis],
        "scan_input_directions": [reverse],
        "scan_output_directions": [reverse],
    }
    node = helper.make_node("Scan", ["start", "x"], ["y", "all"], body=body, num_scan_inputs=1, **attrs)
    proto = model([node], INPUT, ["y", "all"], {"start": start})
    walked = np.moveaxis(X, axis, 0)[:: -1 if reverse else 1]
    sums = np.cumsum(walked, axis=0, dtype=np.float32)
    found = evaluate(load(save(proto, tmp_path / "m.onnx")), {"x": X})
    np.testing.assert_allclose(found["y"], sums[-1], rtol=1e-6)
    np.testing.assert_allclose(found["all"], (sums * walked)[:: -1 if reverse else 1], rtol=1e-6)


def test_a_condition_of_data_is_refused(tmp_path: Path) -> None:
    path = save(branches(None), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedOperatorError, match="choice.*condition that depends on data"):
        load(path)
    assert [one.node for one in survey(path).unsupported] == ["choice"]


def test_an_endless_loop_is_refused(tmp_path: Path) -> None:
    body = graph([helper.make_node("Identity", ["v"], ["next"])], ["i", "given", "v"], ["given", "next"])
    node = helper.make_node("Loop", ["count", "", "x"], ["y"], name="long", body=body)
    path = save(model([node], INPUT, ["y"], {"count": np.array(10 * MOST)}), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedOperatorError, match=f"long.*more than {MOST} iterations"):
        load(path)
