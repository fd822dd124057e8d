"""Ways in which a PyTorch module asks for derivatives while it computes its outputs."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.func import grad, hessian, jacrev, jvp, vmap

from .stop_gradient_forms import Form, Small


def _energy(m: Small, x: Tensor) -> Tensor:
    return torch.tanh(m.second(torch.tanh(m.first(x)))).pow(2).sum()


def _slope(m: Small, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(_energy(m, x), x, create_graph=True)[0]


def _curvature(m: Small, x: Tensor) -> Tensor:
    """Second derivatives along each axis."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(_energy(m, x), [x], create_graph=True)
        return torch.stack([torch.autograd.grad(slope[:, i].sum(), x, create_graph=True)[0] for i in range(4)]).sum(0)


def _constant_slope(m: Small, x: Tensor) -> Tensor:
    """Without create_graph, the derivative is a constant."""
    x = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(_energy(m, x), x, retain_graph=True)
    return m.second(x) * slope


def _weighted_slope(m: Small, x: Tensor) -> Tensor:
    """A vector-Jacobian product of a detached vector, and of the weights' own gradient."""
    x = x.clone().requires_grad_()
    y = m.second(torch.sin(m.first(x)))
    slopes = torch.autograd.grad(y, [x, m.first.weight], grad_outputs=torch.tanh(y).detach(), create_graph=True)
    return slopes[0] + slopes[1].sum()


def _functional(m: Small, x: Tensor) -> Tensor:
    return vmap(grad(lambda row: _energy(m, row)))(x)


def _detached_inside(m: Small, x: Tensor) -> Tensor:
    return vmap(grad(lambda row: _energy(m, row) * m.first(row).detach().sum()))(x)


def _mask_by_vmap(m: Small, x: Tensor) -> Tensor:
    """An attention mask as transformers makes it: a function of two positions, which looks them up in a tensor."""
    places, groups = torch.arange(4), torch.tensor([0, 0, 1, 1])
    with TransformGetItemToIndex():
        same = vmap(vmap(lambda row, column: groups[row] == groups[column], (None, 0)), (0, None))(places, places)
    return m.second(x @ torch.where(same, m.first.weight, 0.0))


DERIVATIVES = [
    Form("slope", _slope),
    Form("curvature", _curvature),
    Form("slope without a graph", _constant_slope),
    Form("vector-Jacobian product", _weighted_slope),
    Form("grad and vmap", _functional),
    Form("hessian", lambda m, x: vmap(hessian(lambda row: _energy(m, row)))(x), "take them in reverse: torch.autograd"),
    Form("reverse over reverse", lambda m, x: vmap(jacrev(jacrev(lambda row: _energy(m, row))))(x).diagonal(0, -2, -1)),
    Form("forward", lambda m, x: jvp(lambda y: torch.tanh(m.first(y)), (x,), (torch.ones_like(x),))[1]),
    Form("mask by vmap", _mask_by_vmap),
    Form("detach inside a transform", _detached_inside, "detaches inside a transform of torch.func"),
]
