"""Functions of PyTorch at zeros, ties, infinities, bounds and saturation, as models spell them: values and gradients of
the imported graph are PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from pockengine import interp
from pockengine.frontends import from_torch
from pockengine.ir import Array, Graph
from tests.compiler.gradients import WEIGHTS, weights, with_gradients
from tests.sweeps import some

from .singular_forms import FORMS, Form


class _All(nn.Module):
    """Every function of a group, of the same inputs."""

    def __init__(self, forms: dict[str, Form]) -> None:
        super().__init__()
        self.forms = forms

    def forward(self, *inputs: Tensor) -> dict[str, Tensor]:
        return {_output(name): form(*inputs) for name, form in self.forms.items()}


def _output(name: str) -> str:
    """A name that no operator has."""
    return f"the {name}"


def _expected(form: Form, inputs: list[Array], weight: Array) -> list[Array]:
    """The value, and the gradient of each input."""
    leaves = [torch.tensor(array, requires_grad=True) for array in inputs]
    value = form(*leaves)
    found = torch.autograd.grad((value * torch.tensor(weight)).sum(), leaves, allow_unused=True)
    gradients = [np.zeros_like(a) if g is None else g.numpy() for a, g in zip(inputs, found, strict=True)]
    return [value.detach().numpy(), *gradients]


def _found(graph: Graph, name: str, inputs: list[Array], weight: Array) -> list[Array]:
    given = {value.name: array for value, array in zip(graph.inputs, inputs, strict=True)}
    results = interp.evaluate(with_gradients(graph, _output(name)), {**given, WEIGHTS: weight})
    return [results["value"], *(results.get(key, np.zeros_like(array)) for key, array in given.items())]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", some(FORMS, 2))
def test_values_and_gradients_are_pytorchs(group: str) -> None:
    given, forms = FORMS[group]
    inputs: list[Any] = [np.array(rows, np.float32) for rows in given]
    harmless = tuple(torch.rand(array.shape) for array in inputs)
    graph = from_torch(_All(forms), harmless)
    for name, form in forms.items():
        weight = weights(graph, _output(name))
        with np.errstate(all="ignore"):
            found = _found(graph, name, inputs, weight)
        for got, want in zip(found, _expected(form, inputs, weight), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4, err_msg=f"{group}: {name}")
