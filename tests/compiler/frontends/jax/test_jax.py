"""Models of JAX: ten training steps against JAX itself."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.sweeps import some

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import jax.numpy as jnp
import optax
from flax import linen

import pockengine as pock
from pockengine.errors import ModelError

STEPS, BATCH, RATE = 10, 4, 0.05


class Convolutional(linen.Module):
    """Convolutions (one grouped), frozen batch norm, layer norm, GELU."""

    @linen.compact
    def __call__(self, x):
        x = linen.relu(linen.BatchNorm(use_running_average=True)(linen.Conv(8, (3, 3), strides=(2, 2))(x)))
        x = linen.gelu(linen.LayerNorm()(linen.Conv(16, (3, 3), feature_group_count=8)(x)))
        return linen.Dense(5)(x.mean((1, 2)))


class Attention(linen.Module):
    """An embedding, self-attention and a head, for tokens."""

    @linen.compact
    def __call__(self, ids):
        x = linen.Embed(32, 16)(ids)
        x = x + linen.MultiHeadDotProductAttention(num_heads=2)(linen.LayerNorm()(x))
        x = x + linen.Dense(16)(linen.silu(linen.Dense(32)(x)))
        return linen.Dense(5)(x.mean(1))


def images(seed):
    return np.asarray(jax.random.normal(jax.random.key(seed), (BATCH, 12, 12, 3)), np.float32)


def tokens(seed):
    return np.asarray(jax.random.randint(jax.random.key(seed), (BATCH, 8), 0, 32), np.int32)


@pytest.mark.parametrize(
    "module, draw", some([(Convolutional(), images), (Attention(), tokens)], 2), ids=some(["cnn", "attention"], 2)
)
def test_ten_steps(module, draw):
    variables = jax.tree.map(np.asarray, module.init(jax.random.key(7), draw(0)))
    labels = [np.random.default_rng(step).integers(0, 5, BATCH) for step in range(STEPS)]

    def loss_of(params, others, x, y):
        logits = module.apply({**others, "params": params}, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    params = variables["params"]
    others = {key: value for key, value in variables.items() if key != "params"}
    grad = jax.jit(jax.value_and_grad(loss_of))
    expected = []
    for step in range(STEPS):
        loss, slopes = grad(params, others, draw(step), labels[step])
        params = jax.tree.map(lambda p, g: p - RATE * g, params, slopes)
        expected.append(float(loss))

    graph = pock.from_jax(module.apply, variables, draw(0))
    recipe = pock.Recipe("cross_entropy", {"name": "sgd", "lr": RATE}, "full", BATCH)
    session = pock.compile(graph, recipe, threads=1).load()
    losses = [session.step({"input": draw(step), "labels": labels[step]}) for step in range(STEPS)]

    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    found = session.state()
    paths = jax.tree_util.tree_flatten_with_path({"params": params})[0]
    assert len(paths) == len(jax.tree.leaves(variables["params"]))
    for path, tensor in paths:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        np.testing.assert_allclose(found[name], tensor, atol=1e-3 * float(jnp.abs(tensor).max()) + 1e-7, err_msg=name)


def test_outputs_and_inputs_are_named():
    graph = pock.from_jax(
        lambda w, a, b: {"sum": a @ w + b, "twice": 2 * a}, jnp.ones((3, 2)), (jnp.ones((4, 3)), jnp.ones((4, 2)))
    )
    assert [value.name for value in graph.inputs] == ["input_0", "input_1"]
    assert list(graph.outputs) == ["sum", "twice"]


def test_what_jax_cannot_export_is_one_sentence():
    with pytest.raises(ModelError, match="JAX cannot export the function to ONNX: "):
        pock.from_jax(lambda w, x: x @ w, jnp.ones((3, 2)), jnp.ones((4, 7)))
