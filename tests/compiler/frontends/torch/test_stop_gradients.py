"""What stops a gradient in PyTorch stops it here.

What takes one in the forward pass has its own, or the module is refused.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pockengine import from_torch, interp
from pockengine.autodiff import backward, prepare
from pockengine.errors import ModelError
from pockengine.ir import Array, Builder, Graph
from pockengine.ops import Emitter
from tests.sweeps import some

from .derivative_forms import DERIVATIVES
from .stop_gradient_forms import FORMS, Form, Small

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
X[3] = torch.tensor([-3.0, 2.0, 0.0, 40.0])


@pytest.mark.parametrize("form", some([*FORMS, *DERIVATIVES], 6), ids=lambda form: form.name)
def test_gradients_are_pytorchs_or_the_module_is_refused(form: Form) -> None:
    module = Small(form.form)
    if form.refused:
        with pytest.raises(ModelError, match=form.refused):
            from_torch(module, (X,), functions=form.rules)
        return
    graph = from_torch(module, (X,), functions=form.rules)
    weights = np.random.default_rng(1).standard_normal(graph.outputs["output"].type.shape).astype(np.float32)
    found = _gradients(graph, {"x": X.numpy()}, weights)
    expected = _expected(module, form, weights)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-4, atol=1e-4, err_msg=name)
    assert all(parameter.requires_grad for parameter in module.parameters())


def _expected(module: Small, form: Form, weights: Array) -> dict[str, Array]:
    """PyTorch's gradients, of the parameters that have one."""
    output = module(X)
    (output * torch.from_numpy(weights)).sum().backward()
    return {name: p.grad.numpy() for name, p in module.named_parameters() if p.grad is not None}


def _gradients(graph: Graph, feeds: dict[str, Array], weights: Array) -> dict[str, Array]:
    """Of sum(output * weights), by parameter, of those that a gradient reaches."""
    builder = Builder.extend(graph)
    e = Emitter(builder)
    out = graph.outputs["output"]
    weighted = e.mul(out, builder.input("weights", out.type))
    builder.outputs = {"loss": e.reshape(e.sum(weighted, range(out.type.rank)), ())}
    builder, gradients = backward(prepare(builder.finish(), graph.params), "loss", graph.params)
    trained = [value for value in graph.params if value in gradients and value.name != "centre"]
    builder.outputs = {value.name: gradients[value] for value in trained}
    return interp.evaluate(builder.finish(), {**feeds, **graph.data, "weights": weights})
