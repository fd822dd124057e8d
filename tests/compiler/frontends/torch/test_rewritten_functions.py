"""Functions that from_torch writes out, against PyTorch's: values and gradients, whatever their options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pockengine as pock
from pockengine import interp
from pockengine.autodiff import train_graph
from pockengine.errors import DynamicShapeError, ModelError
from pockengine.frontends.torch.capture.rewriting.rewritten import cross_entropy, gaussian_nll_loss
from pockengine.recipe import Recipe, resolve
from tests.sweeps import some

WEIGHT = torch.tensor([0.5, 2.0, 1.0])
SCORES = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
PLACES = torch.tensor([[0, 1, 2, -100, 2]] * 4)
OTHERS = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1))
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "smoothed": (F.cross_entropy, cross_entropy, (SCORES, PLACES), {"label_smoothing": 0.2}),
    "weighted": (F.cross_entropy, cross_entropy, (SCORES, PLACES, WEIGHT), {"label_smoothing": 0.2}),
    "ignored": (F.cross_entropy, cross_entropy, (SCORES, PLACES.abs() % 3), {"label_smoothing": 1, "ignore_index": 2}),
    "each": (F.cross_entropy, cross_entropy, (SCORES, PLACES), {"label_smoothing": 0.2, "reduction": "none"}),
    "sum": (F.cross_entropy, cross_entropy, (SCORES, PLACES), {"label_smoothing": 0.2, "reduction": "sum"}),
    "one sample": (F.cross_entropy, cross_entropy, (SCORES[0, :, 0], torch.tensor(1)), {"label_smoothing": 0.2}),
    "probabilities": (F.cross_entropy, cross_entropy, (SCORES, OTHERS.softmax(1)), {}),
    "weighted probabilities": (
        F.cross_entropy, cross_entropy, (SCORES, OTHERS.softmax(1), WEIGHT), {"label_smoothing": 0.1},
    ),
    "each of probabilities": (F.cross_entropy, cross_entropy, (SCORES, OTHERS.softmax(1)), {"reduction": "none"}),
    "gaussian": (F.gaussian_nll_loss, gaussian_nll_loss, (SCORES, OTHERS, OTHERS.exp()), {"full": True}),
    "one variance a row": (F.gaussian_nll_loss, gaussian_nll_loss, (SCORES, OTHERS, OTHERS[..., 0].exp()), {}),
    "one variance": (F.gaussian_nll_loss, gaussian_nll_loss, (SCORES, OTHERS, 2.0), {"reduction": "sum"}),
    "little variance": (
        F.gaussian_nll_loss, gaussian_nll_loss, (SCORES, OTHERS, OTHERS.abs() / 9), {"eps": 0.1, "reduction": "none"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("theirs, ours, args, options", CASES.values(), ids=CASES)
def test_values_and_gradients(
    theirs: Callable[..., Any], ours: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
) -> None:
    found = []
    for function in (theirs, ours):
        scores = args[0].clone().requires_grad_()
        result = function(scores, *args[1:], **options)
        result.sum().backward()
        found.append((result.detach(), scores.grad))
    for mine, wanted in zip(*reversed(found), strict=True):
        torch.testing.assert_close(mine, wanted)


class Smoothed(nn.Module):
    """Two losses inside a model, of which PyTorch's exporter forgets the smoothing and takes the second for labels."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, 1))

    def forward(self, scores: torch.Tensor, labels: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        given = scores * self.scale
        normal = torch.distributions.Normal(given, 2.0).log_prob(teacher).mean()
        return F.cross_entropy(given, labels, label_smoothing=0.3) + F.cross_entropy(given, teacher) + normal


def test_a_model_with_losses_inside() -> None:
    args = (SCORES, PLACES, OTHERS.softmax(1))
    module = Smoothed()
    graph = pock.from_torch(module, args)
    feeds = {name: tensor.numpy() for name, tensor in zip(("scores", "labels", "teacher"), args, strict=True)}
    found = interp.evaluate(graph, {**graph.data, **feeds})
    assert found["output"] == pytest.approx(module(*args).item(), rel=1e-5)
    assert torch.distributions.Distribution._validate_args


def test_a_function_that_nothing_translates_is_named() -> None:
    with pytest.raises(ModelError, match=r"has no word for 'prims.bessel_j0': write it in other functions"):
        pock.from_torch(Rewritten(torch.special.bessel_j0), (SQUARE,))


class Rewritten(nn.Module):
    """One of the functions that a trace shows as others."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x * self.scale)


def _turned(z: torch.Tensor) -> torch.Tensor:
    z = torch.exp(z[:, None] / 3) * z.real[0] + z[None, ..., 1:2] * z / (z + 2j)
    return (z - 1.0).real + torch.log(2 - z).imag


def _scaled(z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real((1 - z) / x[:, :2] + 2 * z.unsqueeze(0) / z.conj()).sum(0)


def _log_densities(x: torch.Tensor) -> torch.Tensor:
    """With gradients for their parameters, and normal numbers from uniform ones."""
    shape, place = x.abs() + 0.5, torch.sigmoid(x)
    student = torch.distributions.StudentT(shape, x, 1.0, validate_args=False).log_prob(place)
    beta = torch.distributions.Beta(shape, shape + 1, validate_args=False)
    gamma = torch.distributions.Gamma(shape, shape, validate_args=False).log_prob(shape.detach())
    return student + beta.log_prob(place) + beta.entropy() + gamma + torch.erfinv(place)


EDGES = torch.tensor([-1.0, 0.0, 1.0])
SQUARE = torch.randn(4, 4, generator=torch.Generator().manual_seed(2))
FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "logarithm of a determinant": lambda x: torch.linalg.slogdet(x)[1] + torch.slogdet(x)[0],
    "places among edges": lambda x: x * torch.bucketize(x, EDGES) + torch.searchsorted(EDGES, x, right=True),
    "places in rows": lambda x: x + torch.searchsorted(x.sort(-1).values.contiguous(), x.contiguous(), side="right"),
    "whole numbers from a fraction": lambda x: x * (0.5 - torch.arange(4)) + (3 - torch.arange(4)),
    "bounds of two kinds": lambda x: x.clamp(-0.5, 1) + torch.clamp(x, max=1) + x.clip(torch.zeros(4)),
    "distances": lambda x: torch.cdist(x, EDGES[:, None] * torch.ones(3, 4)) + torch.cdist(x, x[:3] + 1, p=1.0),
    "complex numbers": lambda x: _turned(torch.complex(x, x.flip(0))),
    "complex scalars": lambda x: _scaled(torch.view_as_complex(x.view(4, 2, 2)), x),
    "complex sums": lambda x: torch.einsum("ij,kj->ik", torch.polar(x**2, x), torch.fft.fft(x)).imag,
    "a spectrum cut short": lambda x: torch.fft.irfft(torch.fft.rfft(x)[..., :2], n=6)[:, :4],
    "axes that are longer than 1": lambda x: x.squeeze(1) + x[None].squeeze((0, 1)) + x[:, None].squeeze(),
    "products": lambda x: torch.cumprod(x, 1) + x.cumprod(dim=0),
    "extrema so far": lambda x: torch.cummax(x.round(), 1)[0] * x.cummin(dim=0).values + torch.cummax(x.round(), 0)[1],
    "overlapping windows": lambda x: (
        x.as_strided((3, 8), (4, 1)) * torch.as_strided(x.t(), (3, 2, 4), (4, 4, 1)).flatten(1)
    ),
    "densities": lambda x: _log_densities(x),
    "axes that are not 1": lambda x: (
        x.squeeze(0) * x.unsqueeze(1).squeeze(1) + torch.squeeze(x[None], (0, 1)) * x[:1].squeeze()
    ),
}


@pytest.mark.parametrize("function", some(FUNCTIONS.values(), 2), ids=some(FUNCTIONS, 2))
def test_functions_without_a_translation(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Gradients by PyTorch's autograd, and by one step of gradient descent."""
    module = Rewritten(function)
    graph = pock.from_torch(module, (SQUARE,))
    recipe = Recipe(lambda output: output.sum(), {"name": "sgd", "lr": 1.0}).bound(graph)
    tensors = dict(graph.data)
    found = interp.step(train_graph(graph, recipe, resolve(recipe, graph)), {"x": SQUARE.numpy()}, tensors)
    total = module(SQUARE).sum()
    total.backward()
    assert float(found["loss"]) == pytest.approx(total.item(), rel=1e-5)
    assert module.scale.grad is not None
    assert 1.0 - tensors["scale"] == pytest.approx(module.scale.grad.numpy(), rel=1e-4, abs=1e-6)


class Converted(nn.Module):
    """Makes its layer what it already is, as routers of experts do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.layer.to(x.dtype)(x)
        return {"first": y, "second": y.tanh(), "again": y}


def test_a_layer_made_what_it_is_and_a_tensor_returned_twice() -> None:
    module = Converted()
    graph = pock.from_torch(module, (SQUARE,))
    assert list(graph.outputs) == ["first", "second", "again"]
    found = interp.evaluate(graph, {"x": SQUARE.numpy()})
    for name, expected in module(SQUARE).items():
        assert found[name] == pytest.approx(expected.detach().numpy(), rel=1e-5, abs=1e-6)


class Padding(nn.Module):
    """Pads as audio codecs do, by whole numbers that it keeps as buffers, and counts its calls."""

    stride: torch.Tensor
    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(2, 2, 3, stride=2)
        self.register_buffer("stride", torch.tensor(2))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        frames = torch.ceil((x.shape[-1] - 1) / self.stride).to(torch.int64)
        extra = int(frames * self.stride + 1 - x.shape[-1])
        if extra > 0:
            x = F.pad(x, (0, extra))
        return self.layer(x)


def test_whole_numbers_among_buffers_decide_shapes_and_stay_as_they_were() -> None:
    module = Padding()
    x = SQUARE.reshape(1, 2, 8)
    graph = pock.from_torch(module, (x,))
    assert [name for name, _ in module.named_buffers()] == ["stride", "calls"]
    before = int(module.calls)
    assert interp.evaluate(graph, {"x": x.numpy()})["output"] == pytest.approx(module(x).detach().numpy(), abs=1e-6)
    assert int(module.calls) == before + 1


class Choosing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = x.flatten()[torch.nonzero(x.flatten() > 0).squeeze(1)]
        return chosen[torch.arange(2).clamp(0, chosen.shape[0] - 1)]


def test_a_size_that_depends_on_data_is_refused_as_such() -> None:
    with pytest.raises(DynamicShapeError, match="depends on data"):
        pock.from_torch(Choosing(), (SQUARE,))
