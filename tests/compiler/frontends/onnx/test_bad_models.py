"""Models that cannot be compiled: each is refused with one sentence that says what to do."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from torch import nn

from pockengine.errors import DynamicShapeError, ModelError, PockError, UnsupportedOperatorError
from pockengine.frontends import from_torch, load, survey

from ..onnx_models import model, save, single

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)


def matmul_model(batch: int | str | None = 2) -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")
    return model([node], {"x": (np.float32, [batch, 3])}, ["y"], {"w": WEIGHT})


def message(error: type[Exception], path: Path, **options) -> str:
    with pytest.raises(error) as caught:
        load(path, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_missing_file(tmp_path):
    assert "there is no model" in message(ModelError, tmp_path / "nothing.onnx")


def test_folder(tmp_path):
    assert "has no config.json: a model is an ONNX file, or a folder with" in message(ModelError, tmp_path)
    with pytest.raises(ModelError, match="is a folder, not an ONNX file"):
        survey(tmp_path)


def test_empty_file(tmp_path):
    (tmp_path / "m.onnx").touch()
    assert "is empty" in message(ModelError, tmp_path / "m.onnx")


@pytest.mark.parametrize("content", [b"PK\x03\x04 not a model", b"\x08", b"\xff" * 40, b"hello world\n" * 9])
def test_not_onnx(tmp_path, content):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    assert "not an ONNX model" in message(ModelError, path)


def test_truncated_at_every_byte(tmp_path):
    whole = matmul_model().SerializeToString()
    path = tmp_path / "m.onnx"
    refused = 0
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        try:
            load(path)
        except ModelError:
            refused += 1
    # Only a cut between two complete top-level fields can leave a smaller, valid model.
    assert refused >= len(whole) - 12


@given(st.data())
@settings(max_examples=150)
def test_damaged_anywhere_is_refused_or_still_a_model(tmp_path_factory, data):
    """Bytes changed, removed or inserted: never anything but a PockError."""
    content = bytearray(matmul_model("batch").SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    path = tmp_path_factory.mktemp("damaged") / "m.onnx"
    path.write_bytes(content)
    for read in (lambda: load(path, batch=2), lambda: survey(path, ["*"])):
        with contextlib.suppress(PockError):
            read()


def test_wrong_weight_size(tmp_path):
    proto = matmul_model()
    proto.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data[:-4]
    assert "'w' has 44 bytes instead of 48" in message(ModelError, save(proto, tmp_path / "m.onnx"))


def test_unsupported_operator_is_named_with_node_and_use(tmp_path):
    nodes = [
        helper.make_node("MaxRoiPool", ["x", "x"], ["places"], name="find", pooled_shape=[1, 1]),
        helper.make_node("Cast", ["places"], ["y"], name="convert", to=1),
    ]
    path = save(model(nodes, {"x": (np.float32, [3])}, ["y"]), tmp_path / "m.onnx")
    text = message(UnsupportedOperatorError, path)
    for part in ("'MaxRoiPool'", "'find'", "output 'y'", "Cast (node 'convert')"):
        assert part in text


def test_unsupported_operator_that_nothing_needs_is_no_matter(tmp_path):
    proto = matmul_model()
    proto.graph.node.append(helper.make_node("NonZero", ["y"], ["unused"], name="find"))
    assert [node.op for node in load(save(proto, tmp_path / "m.onnx")).nodes] == ["matmul"]


def test_attribute_that_is_not_read_names_the_node(tmp_path):
    proto, _ = single("MaxPool", [np.zeros((1, 1, 4, 4), np.float32)], kernel_shape=[2, 2], made_up=3)
    text = message(UnsupportedOperatorError, save(proto, tmp_path / "m.onnx"))
    assert "the_MaxPool" in text
    assert "made_up" in text


def test_result_whose_size_depends_on_data_says_what_to_do_instead(tmp_path):
    proto, _ = single("NonZero", [np.zeros(3, np.float32)])
    assert "use Where with a mask" in message(DynamicShapeError, save(proto, tmp_path / "m.onnx"))


def test_foreign_domain_is_named(tmp_path):
    node = helper.make_node("FusedMatMul", ["x", "w"], ["y"], name="fc", domain="com.microsoft")
    proto = model([node], {"x": (np.float32, [2, 3])}, ["y"], {"w": WEIGHT})
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert "com.microsoft.FusedMatMul" in message(UnsupportedOperatorError, save(proto, tmp_path / "m.onnx"))


def test_dynamic_dimension_is_named(tmp_path):
    path = save(matmul_model("samples"), tmp_path / "m.onnx")
    assert "--dim samples=VALUE" in message(DynamicShapeError, path)
    assert load(path, dims={"samples": 5}).inputs[0].type.shape == (5, 3)
    assert load(path, batch=7).inputs[0].type.shape == (7, 3)


def test_unnamed_dynamic_dimension(tmp_path):
    path = save(matmul_model(None), tmp_path / "m.onnx")
    assert "--dim x:0=VALUE" in message(DynamicShapeError, path)
    assert load(path, dims={"x:0": 5}).inputs[0].type.shape == (5, 3)


def test_unknown_dimension_names_the_nearest(tmp_path):
    path = save(matmul_model("samples"), tmp_path / "m.onnx")
    assert "'samples'" in message(DynamicShapeError, path, dims={"sample": 5}, batch=5)


def test_static_batch_is_not_another(tmp_path):
    text = message(ModelError, save(matmul_model(2), tmp_path / "m.onnx"), batch=8)
    assert "batch of 2" in text
    assert "dynamic first dimension" in text


def test_shape_that_depends_on_data(tmp_path):
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="view")
    proto = model([node], {"x": (np.float32, [4]), "shape": (np.int64, [2])}, ["y"])
    assert "depends on data" in message(DynamicShapeError, save(proto, tmp_path / "m.onnx"))


def test_mismatched_shapes_name_the_node(tmp_path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")
    proto = model([node], {"x": (np.float32, [2, 5])}, ["y"], {"w": WEIGHT})
    assert "'fc'" in message(ModelError, save(proto, tmp_path / "m.onnx"))


def test_old_opset(tmp_path):
    proto, _ = single("Relu", [WEIGHT], opset=11)
    assert "opset 11" in message(ModelError, save(proto, tmp_path / "m.onnx"))


def test_undefined_value(tmp_path):
    node = helper.make_node("Relu", ["nowhere"], ["y"], name="act")
    assert "'nowhere'" in message(ModelError, save(model([node], {}, ["y"]), tmp_path / "m.onnx"))


def elsewhere() -> onnx.TensorProto:
    """A tensor that wants to be read from a file of this machine."""
    tensor = onnx.TensorProto(name="stolen", data_type=onnx.TensorProto.FLOAT, dims=[3, 4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/passwd")
    return tensor


def sparse() -> onnx.SparseTensorProto:
    return onnx.SparseTensorProto(values=elsewhere(), indices=elsewhere(), dims=[3, 4])


def constant(**attribute: object) -> onnx.NodeProto:
    node = onnx.NodeProto(op_type="Constant", output=["stolen"], name="thief")
    for name, value in attribute.items():
        found = onnx.helper.make_attribute(name, value)
        node.attribute.append(found)
    return node


def branch(*nodes: onnx.NodeProto, **parts: list[object]) -> onnx.GraphProto:
    graph = helper.make_graph(list(nodes), "branch", [], [helper.make_tensor_value_info("stolen", 1, [3, 4])])
    for field, values in parts.items():
        getattr(graph, field).extend(values)
    return graph


def choice(graph: onnx.GraphProto) -> onnx.NodeProto:
    return helper.make_node("If", ["c"], ["stolen"], name="thief", then_branch=graph, else_branch=graph)


def with_function(node: onnx.NodeProto, *defaults: onnx.AttributeProto) -> onnx.ModelProto:
    proto = model([helper.make_node("F", [], ["stolen"], domain="own"), ADD], {"x": (np.float32, [3, 4])}, ["y"])
    proto.opset_import.add(domain="own", version=1)
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("own", "F", [], ["stolen"], [node], opsets, attribute_protos=list(defaults))
    proto.functions.append(function)
    return proto


def with_node(node: onnx.NodeProto) -> onnx.ModelProto:
    inputs = {"x": (np.float32, [3, 4]), **({"c": (np.bool_, [])} if node.op_type == "If" else {})}
    return model([node, ADD], inputs, ["y"])


def with_sparse_initializer() -> onnx.ModelProto:
    proto = model([ADD], {"x": (np.float32, [3, 4])}, ["y"])
    proto.graph.sparse_initializer.append(sparse())
    return proto


ADD = helper.make_node("Add", ["x", "stolen"], ["y"], name="add")
THEFTS = {
    "a constant": lambda: with_node(constant(value=elsewhere())),
    "a list of tensors": lambda: with_node(constant(values=[elsewhere()])),
    "a sparse constant": lambda: with_node(constant(sparse_value=sparse())),
    "a list of sparse tensors": lambda: with_node(constant(values=[sparse()])),
    "a branch's initializer": lambda: with_node(choice(branch(initializer=[elsewhere()]))),
    "a branch's sparse initializer": lambda: with_node(choice(branch(sparse_initializer=[sparse()]))),
    "a branch's constant": lambda: with_node(choice(branch(constant(value=elsewhere())))),
    "a branch of a branch": lambda: with_node(choice(branch(choice(branch(constant(value=elsewhere())))))),
    "graphs as a list": lambda: with_node(constant(graphs=[branch(initializer=[elsewhere()])])),
    "a function": lambda: with_function(constant(value=elsewhere())),
    "a branch within a function": lambda: with_function(choice(branch(initializer=[elsewhere()]))),
    "a function's default": lambda: with_function(
        constant(value_float=1.0), helper.make_attribute("default", elsewhere())
    ),
    "a sparse initializer": with_sparse_initializer,
}


@pytest.mark.parametrize("make", THEFTS.values(), ids=THEFTS)
def test_only_initializers_lie_in_other_files(tmp_path, make):
    """A library that reads a tensor where the model says so would put any file into the artifact."""
    path = tmp_path / "m.onnx"
    path.write_bytes(make().SerializeToString())
    assert "lies in another file, which only initializers may" in message(ModelError, path)


@pytest.mark.parametrize("dims", [[2**32, 2**32], [2**62, 4], [2**33, 2**31], [0, 2**62], [0, 2**40, 2**40], [1] * 70])
def test_sizes_beyond_any_machine(tmp_path, dims):
    """The product of the first three is 0 in 64 bits."""
    proto = matmul_model()
    proto.graph.initializer[0].dims[:] = dims
    proto.graph.initializer[0].raw_data = b""
    assert "is damaged: the tensor 'w' has the shape" in message(ModelError, save(proto, tmp_path / "m.onnx"))


def test_module_that_pytorch_cannot_export():
    class Erratic(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum().item() > 0 else x.reshape(-1)[: int(x.sum())]

    with pytest.raises(ModelError, match="cannot export Erratic"):
        from_torch(Erratic(), torch.ones(3))


def test_a_module_that_does_not_run_and_one_that_cannot_be_traced_are_told_apart():
    class Listing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * float(x.numpy()[0])

    where = r"; it comes from line \d+ of test_bad_models.py \('return x \* float\(x.numpy\(\)\[0\]\)'\)"
    with pytest.raises(ModelError, match=f"cannot export Listing .*{where}, so write that in other functions"):
        from_torch(Listing(), torch.ones(3))
    with pytest.raises(ModelError, match=f"Listing does not run on the example inputs: .*{where}$"):
        from_torch(Listing(), torch.ones(0))


def test_from_torch_names_a_submodule_the_exporter_cannot_take():
    module = nn.Sequential()
    module.add_module("code", nn.Linear(3, 2))
    with pytest.raises(ModelError, match="rename the submodule 'code'"):
        from_torch(module, torch.ones(4, 3))


def test_from_torch_restores_the_mode():
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).train()
    graph = from_torch(module, torch.ones(4, 3))
    assert module.training
    assert [value.name for value in graph.inputs] == ["input"]
    assert list(graph.outputs) == ["output"]


def test_survey_says_where_unsupported_nodes_lie(tmp_path):
    nodes = [
        helper.make_node("MaxRoiPool", ["x", "x"], ["early"], name="before", pooled_shape=[1, 1]),
        helper.make_node("Cast", ["early"], ["cast"], to=1),
        helper.make_node("MatMul", ["cast", "w"], ["hidden"], name="fc"),
        helper.make_node("Unique", ["hidden"], ["y"], name="after"),
    ]
    path = save(model(nodes, {"x": (np.float32, [3])}, ["y"], {"w": WEIGHT}), tmp_path / "m.onnx")
    found = {node.node: node.position for node in survey(path, ["w"]).unsupported}
    assert "frozen part" in found["before"]
    assert "gradient" in found["after"]
    advice = {node.node: node.advice for node in survey(path, ["w"]).unsupported}
    assert "cut the model behind this node" in advice["before"]
    assert "compute it before the model" in advice["after"]
    assert {node.node: node.shapes for node in survey(path).unsupported}["before"] == "f32[3], f32[3]"
    statuses = {use.operator: use.status for use in survey(path).operators}
    assert statuses == {
        "MaxRoiPool": "unsupported",
        "Cast": "supported",
        "MatMul": "supported",
        "Unique": "unsupported",
    }


@pytest.mark.parametrize(
    "operator, operands, attributes, sentence",
    [
        ("StopGradient", ["x"], {"strength": 2}, "the attribute 'strength' is not supported"),
        ("StraightThrough", ["x", "w"], {}, "which have to be alike"),
        ("Dropout", ["x"], {"ratio": 0.5, "mask": [7]}, "mask"),
        ("Random", [], {"function": "f" * 5000, "module": "\n"}, "draws random numbers"),
        ("Nonsense", ["x"], {}, "'pock.Nonsense'"),
    ],
)
def test_operators_of_our_own_that_somebody_else_wrote(tmp_path, operator, operands, attributes, sentence):
    node = helper.make_node(operator, operands, ["y"], name="made", domain="pock", **attributes)
    proto = model([node], {"x": (np.float32, [2, 3])}, ["y"], {"w": WEIGHT})
    proto.opset_import.append(helper.make_opsetid("pock", 1))
    save(proto, tmp_path / "m.onnx")
    assert sentence in message(PockError, tmp_path / "m.onnx")
