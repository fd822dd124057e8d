"""Laws 2 of DESIGN section 8: each pass leaves the meaning alone, and a sparse gradient is the dense one restricted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from pockengine import interp, passes
from pockengine.autodiff import eval_graph, train_graph
from pockengine.ir import DType, Graph, Node, RegionKind, TensorType, Value, parse, render
from pockengine.passes import ALGEBRA, SHAPING, Context, Pass, optimise
from pockengine.passes.gradients import Gradients
from pockengine.plan.pipeline import PIPELINE
from pockengine.recipe import ALL, FROZEN, Channels, Recipe, Scheme
from tests.compiler.passes.networks import Net, batch, cnn, decoder, optimised, transformer
from tests.sweeps import some

NETWORKS = {"cnn": cnn, "decoder": decoder, "transformer": transformer}
SCHEMES: dict[str, Callable[[Graph], Scheme]] = {
    "full": lambda g: Scheme({p.name: ALL for p in g.params if "running" not in p.name}),
    "bias": lambda g: Scheme({p.name: ALL if p.name.endswith("bias") else FROZEN for p in g.params}),
    "head": lambda g: Scheme({p.name: ALL if p.name.startswith("fc") else FROZEN for p in g.params}),
    "channels": lambda g: Scheme({p.name: _half(p.name, p.type.shape) for p in g.params}),
}
OPTIMIZERS = {"momentum": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}, "adamw": {"name": "adamw"}}


NO_GRADIENT = ("key.bias",)
"""A softmax does not see what is added to all of its row; AdamW makes whole steps of the rounding that is left."""

NEEDED = ("expand_composites", "tidy", "channels_last", "stream_embeddings", "copy_updates", "read_packed")
REMOVABLE = sorted({one.name for one in ALGEBRA + SHAPING} - set(NEEDED))


def _half(name: str, shape: tuple[int, ...]) -> str | Channels:
    if name not in ("c1.weight", "c2.weight", "query.weight", "up.weight", "fc.weight"):
        return FROZEN
    axis = 0 if name == "c2.weight" else 1
    return Channels(axis, tuple(range(0, shape[axis], 2)))


def training(network: str, scheme: str, optimizer: str = "momentum", **recipe: Any) -> tuple[Graph, Graph, Scheme]:
    """(model, training graph, scheme)."""
    model = NETWORKS[network]()
    chosen = SCHEMES[scheme](model)
    return model, train_graph(model, Recipe(optimizer=OPTIMIZERS[optimizer], **recipe), chosen), chosen


def frozen_of(model: Graph, graph: Graph) -> list[str]:
    updated = {target.name for target in graph.updates}
    return [value.name for value in model.params if value.name not in updated]


def assert_same_step(before: Graph, after: Graph, arrays: dict[str, np.ndarray]) -> None:
    """Two steps of each give the same losses and the same updated tensors."""
    first, second = dict(before.data), dict(before.data)
    for _ in range(2):
        expected, actual = interp.step(before, arrays, first), interp.step(after, arrays, second)
        np.testing.assert_allclose(actual["loss"], expected["loss"], rtol=1e-5)
    assert first.keys() == second.keys()
    for name, array in first.items():
        near = 4e-3 if name in NO_GRADIENT else 2e-5
        np.testing.assert_allclose(second[name], array, rtol=2e-3, atol=near, err_msg=name)


@pytest.mark.parametrize("network, scheme, optimizer", some(product(NETWORKS, SCHEMES, OPTIMIZERS), 3))
def test_each_pass_keeps_the_step(network: str, scheme: str, optimizer: str) -> None:
    model, graph, _ = training(network, scheme, optimizer)
    frozen, arrays = frozen_of(model, graph), batch(model)
    current = graph
    for one in ALGEBRA + SHAPING:
        following = optimised(current, frozen, (one,))
        assert_same_step(current, following, arrays)
        current = following
    assert_same_step(graph, current, arrays)
    assert render(parse(render(current))) == render(current)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("network", NETWORKS)
def test_a_pass_that_is_listed_again_leaves_alone_what_it_made(network: str, scheme: str) -> None:
    """So `optimise` need not run it where no other pass has changed the graph."""
    model, current, _ = training(network, scheme)
    names = [one.name for one in ALGEBRA + SHAPING]
    frozen, again = frozen_of(model, current), {name for name in names if names.count(name) > 1}
    assert again
    for one in ALGEBRA + SHAPING:
        current = optimised(current, frozen, (one,))
        if one.name in again:
            assert optimised(current, frozen, (one,)) is current, one.name


def test_what_a_pass_has_made_it_is_not_given_again() -> None:
    given = []

    def copied(graph: Graph, context: Context) -> Graph:
        given.append(graph)
        return graph.with_(name="made")

    one, idle = Pass("one", copied, ""), Pass[Context]("idle", lambda graph, context: graph, "")
    other = Pass[Context]("other", lambda graph, context: graph.with_(name="other"), "")
    model = cnn()
    assert optimise(model, (one, idle, one, other, one), Context()).name == "made"
    assert [graph.name for graph in given] == [model.name, "other"]


@pytest.mark.parametrize("name", REMOVABLE)
def test_a_pass_left_out_changes_no_result(name: str) -> None:
    model, graph, _ = training("cnn", "channels")
    frozen, pipeline = frozen_of(model, graph), PIPELINE.without(name)
    assert name not in {one.name for one in pipeline.algebra + pipeline.shaping}
    assert_same_step(graph, optimised(graph, frozen, pipeline.algebra + pipeline.shaping), batch(model))


def test_without_fusion_each_region_has_one_node() -> None:
    model, graph, _ = training("cnn", "full")
    pipeline = PIPELINE.without("fuse")
    shaped = optimised(graph, frozen_of(model, graph), pipeline.algebra + pipeline.shaping)
    assert {len(node.body.nodes) for node in shaped.nodes if node.body} == {1}


@pytest.mark.parametrize("name", NEEDED)
def test_what_others_take_for_granted_stays(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        PIPELINE.without(name)


@pytest.mark.parametrize("network", NETWORKS)
def test_sparse_gradient_is_the_dense_one_restricted(network: str) -> None:
    model, sparse, scheme = training(network, "channels")
    dense = train_graph(model, Recipe(optimizer=OPTIMIZERS["momentum"]), Scheme(dict.fromkeys(scheme.trained(), ALL)))
    after = optimised(sparse, frozen_of(model, sparse))
    arrays, whole, part = batch(model), dict(model.data), dict(model.data)
    interp.step(dense, arrays, whole)
    interp.step(after, arrays, part)
    for name in scheme.trained():
        chosen = scheme.of(name)
        assert isinstance(chosen, Channels)
        place = (slice(None),) * chosen.axis + (list(chosen.indices),)
        np.testing.assert_allclose(part[name][place], whole[name][place], rtol=1e-4, atol=1e-6)
        others = np.delete(part[name], chosen.indices, chosen.axis)
        np.testing.assert_array_equal(others, np.delete(model.data[name], chosen.indices, chosen.axis))


def test_selection_reaches_the_saved_activation() -> None:
    """The weight gradient of c1 is computed for half of its 16 input channels, from a selection made in the forward
    part."""
    model, graph, _ = training("cnn", "channels")
    after = optimised(graph, frozen_of(model, graph))
    gathers = [node for node in after.nodes if node.op == "gather" and node.phase == "forward"]
    assert any(node.output.type.shape == (2, 4, 4, 8) for node in gathers)
    bodies = [inner for node in after.nodes if node.body for inner in node.body.nodes]
    assert any(node.op == "conv2d_dw" and node.output.type.shape == (32, 8, 1, 1) for node in bodies)


def test_frozen_prefix_has_no_backward_nodes() -> None:
    _, graph, _ = training("cnn", "head")
    assert not [node for node in graph.nodes if node.phase == "backward" and "conv2d" in node.op]


@pytest.mark.parametrize("images", (1, 2))
def test_no_convolution_output_is_kept_for_a_frozen_norm(images: int) -> None:
    """Whatever the batch, the scale's gradient comes from the weight gradient."""
    model = cnn(images)
    graph = train_graph(model, Recipe(), SCHEMES["full"](model))
    reduced = optimised(graph, frozen_of(model, graph), ALGEBRA)
    convolved = {node.output for node in reduced.nodes if node.op == "conv2d"}
    assert not [node for node in reduced.nodes if node.phase != "forward" and convolved & set(node.inputs)]
    assert_same_step(graph, reduced, batch(model))


def test_training_mode_batch_norm_updates_running_statistics() -> None:
    model, graph, _ = training("cnn", "full", batch_norm="train")
    updated = {target.name for target in graph.updates}
    assert {"b0.running_mean", "b0.running_var"} <= updated
    assert_same_step(graph, optimised(graph, frozen_of(model, graph)), batch(model))


def test_sgd_update_is_fused_into_the_weight_gradient() -> None:
    """With plain SGD and frozen norms a weight gradient never exists in memory."""
    model = cnn()
    scheme = Scheme({"c1.weight": ALL})
    graph = train_graph(model, Recipe(optimizer={"name": "sgd", "lr": 0.1}), scheme)
    after = optimised(graph, frozen_of(model, graph))
    (writer,) = [n for n in after.nodes if any(v in after.updates.values() for v in n.outputs)]
    assert writer.body is not None
    assert writer.body.nodes[0].op == "conv2d_dw"
    assert len(writer.outputs) == 1


@pytest.mark.parametrize("images", (1, 2))
def test_both_depthwise_gradients_read_dy_together(images: int) -> None:
    """With the sums over pixels that both norms' biases get, and all three updates."""
    model = cnn(images)
    graph = train_graph(model, Recipe(optimizer=OPTIMIZERS["momentum"]), SCHEMES["full"](model))
    after = optimised(graph, frozen_of(model, graph))
    (region,) = [node for node in after.nodes if node.region_kind is RegionKind.GRADIENTS]
    assert region.body is not None
    inside = [node.op for node in region.body.nodes]
    assert {"conv2d_dx", "conv2d_dw"} <= set(inside) and inside.count("reduce_sum") == 2
    updated = {target.name for target, new in after.updates.items() if made_by(after, new) is region}
    assert {"c2.weight", "b1.bias", "b2.bias"} <= updated
    found = Gradients.of(region.body.nodes)
    assert found is not None and found.dy_sum is not None and found.image_sum is not None


def made_by(graph: Graph, value: Value) -> Node | None:
    """The node that computes a value, reshapes aside."""
    made = graph.producers().get(value)
    return made_by(graph, made.inputs[0]) if made and made.op == "reshape" else made


def test_updates_follow_their_gradients() -> None:
    """No update waits for the end of the backward pass."""
    model, graph, _ = training("cnn", "full")
    after = optimised(graph, frozen_of(model, graph))
    made = after.producers()
    position = {node: index for index, node in enumerate(after.nodes)}
    first = min(position[made[new]] for new in after.updates.values() if new in made)
    assert first < len(after.nodes) * 0.6


@pytest.mark.parametrize("network", NETWORKS)
def test_evaluation_agrees_with_training_loss(network: str) -> None:
    model, graph, _ = training(network, "full")
    arrays = batch(model)
    evaluated = optimised(eval_graph(model, Recipe()), [value.name for value in model.params])
    outputs = interp.evaluate(evaluated, arrays)
    assert np.mean(outputs["sample_loss"]) == pytest.approx(float(interp.evaluate(graph, arrays)["loss"]), rel=1e-5)
    right = np.argmax(interp.evaluate(model, arrays)["logits"], -1) == arrays["labels"]
    np.testing.assert_array_equal(outputs["correct"], right.astype(np.float32))


def test_explicit_padding_becomes_the_convolutions_own() -> None:
    """Also asymmetric padding, as TensorFlow's models have it; the backward part then has no slice."""
    net = Net("padded")
    x = net.builder.input("x", TensorType(DType.F32, (2, 3, 8, 8)))
    padded = net.e.op("pad", x, low=(0, 0, 0, 0), high=(0, 0, 1, 1), interior=(0,) * 4, value=0.0)
    graph = net.finish(net.conv(padded, "c", 4, 3, 2))
    simple = passes.simplify(graph)
    assert [node.op for node in simple.nodes if node.op != "pad"] == ["conv2d"]
    assert simple.nodes[-1].attrs["pad"] == (1, 1, 2, 2)
    arrays = {"x": np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)}
    expected = interp.evaluate(graph, arrays)["logits"]
    np.testing.assert_allclose(interp.evaluate(simple, arrays)["logits"], expected, rtol=1e-6)


def test_a_selection_that_repeats_elements_stays_behind_what_computes_them() -> None:
    net = Net("repeat")
    x = net.builder.input("x", TensorType(DType.F32, (3, 1)))
    repeated = net.e.op("gather", net.e.mul(x, 0.5), net.builder.const(np.zeros(5, np.int64)), axis=1)
    graph = net.finish(net.e.sum(repeated, (1,)))
    arrays = {"x": np.ones((3, 1), np.float32)}
    after = optimised(graph, (), ALGEBRA)
    np.testing.assert_allclose(interp.evaluate(after, arrays)["logits"], np.full((3, 1), 2.5))


def test_a_selection_behind_residual_connections_is_taken_of_each_tensor_once() -> None:
    """Not twice as often at each addition: Kosmos-2, which reads one token of a deep network, was compiled for ever."""
    depth = 40
    net = Net("residual")
    x = net.builder.input("x", TensorType(DType.F32, (2, 3, 4)))
    y = x
    for _ in range(depth):
        y = net.e.add(y, net.e.mul(y, 0.01))
    first = net.e.op("gather", y, net.builder.const(np.zeros(1, np.int64)), axis=1)
    graph = net.finish(net.e.sum(first, (2,)))
    after = optimised(graph, (), ALGEBRA)
    assert len(after.nodes) < 3 * depth
    arrays = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    expected = interp.evaluate(graph, arrays)["logits"]
    np.testing.assert_allclose(interp.evaluate(after, arrays)["logits"], expected, rtol=1e-5)
