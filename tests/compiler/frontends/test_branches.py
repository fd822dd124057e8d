"""`If`: a known condition chooses its branch when importing; one that depends on data is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from pockengine.errors import UnsupportedOperatorError
from pockengine.frontends import load, survey
from pockengine.interp import evaluate
from tests.compiler.frontends.onnx_models import model, save

X = np.array([[1.0, -2.0, 3.0]], np.float32)


def branches(condition: np.ndarray | None) -> object:
    """y = x + 10 if the condition holds, else x * x; None: the condition is an input."""
    out = [helper.make_tensor_value_info("inside", TensorProto.FLOAT, [1, 3])]
    ten = numpy_helper.from_array(np.array([10.0], np.float32), "ten")
    then = helper.make_graph([helper.make_node("Add", ["x", "ten"], ["inside"])], "then", [], out, [ten])
    other = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["inside"])], "else", [], out)
    node = helper.make_node("If", ["condition"], ["y"], name="choice", then_branch=then, else_branch=other)
    inputs: dict[str, tuple[type, tuple[int, ...]]] = {"x": (np.float32, (1, 3))}
    if condition is None:
        return model([node], {**inputs, "condition": (np.bool_, ())}, ["y"])
    return model([node], inputs, ["y"], {"condition": condition})


@pytest.mark.parametrize(("condition", "expected"), [(True, X + 10), (False, X * X)])
def test_a_known_condition_chooses(tmp_path: Path, condition: bool, expected: np.ndarray) -> None:
    path = save(branches(np.array(condition)), tmp_path / "m.onnx")
    np.testing.assert_array_equal(evaluate(load(path), {"x": X})["y"], expected)
    assert [(use.operator, use.status) for use in survey(path).operators] == [("If", "supported")]


def test_a_condition_of_data_is_refused(tmp_path: Path) -> None:
    path = save(branches(None), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedOperatorError, match="choice.*condition that depends on data"):
        load(path)
    assert [one.node for one in survey(path).unsupported] == ["choice"]
