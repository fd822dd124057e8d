"""What stops or changes a gradient in JAX does so here, or the function is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax

import pockengine as pock
from pockengine import interp
from pockengine.errors import PockError
from tests.sweeps import some

from ..gradients import gradients
from .gradient_forms import FORMS, WEIGHTS, Form, X, a_codebook


def by_name(tree):
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


@pytest.mark.parametrize("form", some(FORMS, 6), ids=lambda form: form.name)
def test_gradients_are_jaxs_or_the_function_is_refused(form: Form) -> None:
    function, params = form.build()
    if form.refused:
        with pytest.raises(PockError, match=form.refused):
            pock.from_jax(function, params, X)
        return
    graph = pock.from_jax(function, params, X)
    leaves, tree = jax.tree.flatten(params)
    trained = {i: leaf for i, leaf in enumerate(leaves) if getattr(leaf, "dtype", None) == np.float32}

    def output(given):
        return function(jax.tree.unflatten(tree, [given.get(i, leaf) for i, leaf in enumerate(leaves)]), X)

    expected, back = jax.vjp(output, trained)
    weights = np.random.default_rng(1).standard_normal(expected.shape).astype(np.float32)
    np.testing.assert_allclose(interp.evaluate(graph, {"input": X})["output"], expected, rtol=1e-4, atol=1e-5)
    found = gradients(graph, {"input": X}, "output", weights)
    (slopes,) = back(weights)
    names = by_name(jax.tree.unflatten(tree, [slopes.get(i, 0.0) for i in range(len(leaves))]))
    assert found.keys() <= names.keys()
    assert any(np.any(gradient) for gradient in found.values())
    for name in {parameter.name for parameter in graph.params} | found.keys():
        gradient = np.asarray(names[name])
        np.testing.assert_allclose(found.get(name, 0 * gradient), gradient, rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_compiled_codebook_trains_as_in_jax() -> None:
    target = np.random.default_rng(2).standard_normal((5, 4)).astype(np.float32)
    recipe = pock.Recipe("mse", {"name": "sgd", "lr": 0.05}, "full", 5)
    session = pock.compile(pock.from_jax(a_codebook, WEIGHTS, X), recipe, threads=1).load()
    slopes = jax.jit(jax.value_and_grad(lambda w: ((a_codebook(w, X) - target) ** 2).mean()))
    weights = WEIGHTS
    for _ in range(3):
        loss, gradient = slopes(weights)
        weights = jax.tree.map(lambda w, g: w - 0.05 * g, weights, gradient)
        assert session.step({"input": X, "labels": target}) == pytest.approx(float(loss), rel=1e-5)
    for name, tensor in session.state().items():
        np.testing.assert_allclose(tensor, weights[name], atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (lambda w, x: x + w, jax.random.key(0), "'input' of from_jax is a PRNGKeyArray and not an array of numbers"),
        (lambda w, x: x["a"] + w, {"a": X}, "'input' of from_jax is a dict"),
        (lambda w, x: jax.pure_callback(lambda y: y, x, x) + w, X, "no translation of the primitive 'pure_callback'"),
        (lambda w, x: x if x.sum() > 0 else w, X, "Attempted boolean conversion of traced array"),
        (lambda w, x, y: x, X, "missing 1 required positional argument: 'y'"),
    ],
    ids=["key", "dict", "callback", "branch", "arguments"],
)
def test_mistakes_are_told_in_a_sentence(function, args, message) -> None:
    with pytest.raises(PockError, match=message):
        pock.from_jax(function, np.ones(4, np.float32), args)


def test_a_module_is_no_function() -> None:
    from flax import linen

    with pytest.raises(PockError, match="not the module Dense: give its 'apply'"):
        pock.from_jax(linen.Dense(2), {}, X)
