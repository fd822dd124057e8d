"""Files that say what no exporter says: each is refused with one sentence, or read as ONNX Runtime reads it. All were
found by tests/compiler/fuzz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from pockengine.autodiff import train_graph
from pockengine.compile import plan_inference
from pockengine.errors import ModelError, PockError, RecipeError, UnsupportedOperatorError
from pockengine.frontends import load, survey
from pockengine.recipe import Recipe, resolve
from pockengine.targets import get

from ..onnx_models import model, save, single

F32, I64 = np.float32, np.int64


def chain() -> onnx.ModelProto:
    """x W, then Relu."""
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], ["h"], name="fc"),
        helper.make_node("Relu", ["h"], ["y"], name="relu"),
    ]
    return model(nodes, {"x": (F32, [2, 3])}, ["y"], {"fc.weight": np.ones((3, 4), F32)})


def refusal(proto: onnx.ModelProto | bytes, folder: Path, kind: type[PockError] = ModelError) -> str:
    path = folder / "m.onnx"
    path.write_bytes(proto if isinstance(proto, bytes) else proto.SerializeToString())
    with pytest.raises(kind) as caught:
        survey(path)
        load(path)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_function_that_calls_itself(tmp_path):
    proto = chain()
    proto.functions.append(
        helper.make_function(
            "own", "Again", ["a"], ["b"], [helper.make_node("Again", ["a"], ["b"], domain="own")],
            [helper.make_opsetid("", 23), helper.make_opsetid("own", 1)],
        )
    )  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("own", 1))
    assert "Cycle" in refusal(proto, tmp_path)


def test_a_name_that_is_not_text(tmp_path):
    content = chain().SerializeToString().replace(b"Relu", b"\xff\xfelu")
    assert "not text" in refusal(content, tmp_path)


def test_a_name_of_two_lines(tmp_path):
    proto = chain()
    proto.graph.node[1].input[0] = "a\nb"
    assert "reads 'a b'" in refusal(proto, tmp_path)


def test_typed_contents_that_do_not_fill_the_shape(tmp_path):
    proto = chain()
    proto.graph.initializer[0].CopyFrom(helper.make_tensor("fc.weight", 1, [3], [1.0, 2.0, 3.0]))
    proto.graph.initializer[0].dims[0] = 10**9
    assert "do not fill [1000000000]" in refusal(proto, tmp_path)


@pytest.mark.parametrize("size", [-1, -(2**63)])
def test_negative_sizes(tmp_path, size):
    proto = chain()
    proto.graph.initializer[0].dims[0] = size
    assert f"[{size}, 4]" in refusal(proto, tmp_path)
    proto = chain()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
    assert f"{size} elements" in refusal(proto, tmp_path)


def test_a_branch_with_a_node_without_results(tmp_path):
    branch = helper.make_graph([helper.make_node("Neg", ["x"], [])], "b", [], [onnx.ValueInfoProto(name="t")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    proto = model([node], {"x": (F32, [2])}, ["y"], {"c": np.asarray(True)})
    assert "without results" in refusal(proto, tmp_path)


def test_attributes_of_another_type(tmp_path):
    proto, _ = single("Gather", [np.ones((2, 2), F32), np.zeros(1, I64)], constants=(0, 1), axis="first")
    assert "the_Gather" in refusal(proto, tmp_path)
    proto, _ = single("Resize", [np.ones((1, 1, 2, 2), F32), None, np.ones(4, F32)], constants=(2,), mode=b"\xff\xfe")
    assert "mode" in refusal(proto, tmp_path, PockError)


def test_a_sequence_with_an_attribute_of_another_type(tmp_path):
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], name="split", axis="text"),
        helper.make_node("ConcatFromSequence", ["parts"], ["y"], axis=0),
    ]
    assert "malformed" in refusal(model(nodes, {"x": (F32, [2, 2])}, ["y"]), tmp_path)


def test_a_condition_of_no_number(tmp_path):
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "b", [], [onnx.ValueInfoProto(name="t")])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    proto = model([node], {"x": (F32, [2])}, ["y"], {"c": np.zeros(0, bool)})
    assert "one number" in refusal(proto, tmp_path)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_scales_that_are_none(tmp_path, scale):
    arrays = [np.ones((1, 1, 2, 2), F32), None, np.asarray([1, 1, 1, scale], F32)]
    proto, _ = single("Resize", arrays, constants=(2,), mode="linear")
    assert "greater than 0" in refusal(proto, tmp_path)


def test_results_of_any_size(tmp_path):
    arrays = [np.ones((1, 1, 2, 2), F32), None, np.asarray([1, 1, 1, 1e9], F32)]
    proto, _ = single("Resize", arrays, constants=(2,), mode="linear", coordinate_transformation_mode="asymmetric")
    assert "too long" in refusal(proto, tmp_path)
    proto, _ = single("Expand", [np.ones(1, F32), np.asarray([2**40, 2**20], I64)], constants=(1,))
    assert "no machine" in refusal(proto, tmp_path)


def test_a_convolution_of_an_enormous_image_is_planned(tmp_path):
    node = helper.make_node("Conv", ["x", "conv.weight"], ["y"], pads=[0, 0, 0, 10**9])
    proto = model([node], {"x": (F32, [1, 1, 1, 4])}, ["y"], {"conv.weight": np.ones((1, 1, 1, 1), F32)})
    graph = load(save(proto, tmp_path / "m.onnx"))
    assert plan_inference(graph, get("host"), 2).program.plan.arena_bytes > 4 * 10**9


def test_a_loss_of_nothing(tmp_path):
    proto = chain()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    graph = load(save(proto, tmp_path / "m.onnx"))
    recipe = Recipe(loss="mse")
    with pytest.raises(RecipeError, match="nothing is in it"):
        train_graph(graph, recipe, resolve(recipe, graph))


@pytest.mark.parametrize(("keepdims", "shape"), [(1, (2, 1)), (0, (2,)), (2**40, (2,))])
def test_keepdims_is_1_or_not(tmp_path, keepdims, shape):
    proto, _ = single("ReduceMean", [np.ones((2, 3), F32), np.asarray([1], I64)], constants=(1,), keepdims=keepdims)
    (output,) = load(save(proto, tmp_path / "m.onnx")).outputs.values()
    assert output.type.shape == shape


def test_a_one_hot_encoding_of_nothing_or_of_everything(tmp_path):
    arrays: list[np.ndarray | None] = [np.zeros(2, I64), np.asarray(3, I64), np.zeros(0, F32)]
    assert "slice" in refusal(single("OneHot", arrays, constants=(1, 2))[0], tmp_path)
    arrays = [np.zeros(2, I64), np.asarray(2**40, I64), np.asarray([0, 1], F32)]
    assert "classes" in refusal(single("OneHot", arrays, constants=(1, 2))[0], tmp_path)


def test_a_transposed_convolution_of_enormous_stride(tmp_path):
    proto, _ = single(
        "ConvTranspose", [np.ones((1, 1, 2, 2), F32), np.ones((1, 1, 1, 1), F32)], constants=(1,), strides=[65536, 1]
    )
    graph = load(save(proto, tmp_path / "m.onnx"))
    with pytest.raises(UnsupportedOperatorError, match="no strides as large"):
        plan_inference(graph, get("host"), 2)


def test_half_precision_is_not_trained(tmp_path):
    nodes = [
        helper.make_node("Cast", ["scale.weight"], ["s"], to=1),
        helper.make_node("Mul", ["x", "s"], ["y"], name="scale"),
    ]
    proto = model(nodes, {"x": (F32, [2, 3])}, ["y"], {"scale.weight": np.ones(3, np.float16)})
    graph, recipe = load(save(proto, tmp_path / "m.onnx")), Recipe(loss="mse")
    with pytest.raises(RecipeError, match="only f32 parameters can be trained"):
        train_graph(graph, recipe, resolve(recipe, graph))
