"""Ways in which a PyTorch module says that no gradient passes, or another one: each a module of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional

Expression = Callable[["Small", Tensor], Tensor]


class Small(nn.Module):
    """Two layers, a codebook and a running mean for a form to play with."""

    centre: Tensor

    def __init__(self, form: Expression) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.codes = nn.Parameter(torch.empty(6, 4))
        self.register_buffer("centre", torch.full((4,), 0.25))
        self.form = form
        for parameter in self.parameters():
            nn.init.normal_(parameter, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return self.form(self, x)


@dataclass(frozen=True)
class Form:
    """form     what the module computes
    refused  what from_torch says instead of importing it; empty where it is to be right
    rules    what from_torch is given for custom functions"""

    name: str
    form: Expression
    refused: str = ""
    rules: dict[Any, Any] = field(default_factory=dict)


class RoundThrough(Function):
    """Straight through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return dy


class CheapSilu(Function):
    """The derivative, computed from what is cheap to save."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return dy * (gate + x * gate * (1 - gate))


class NewStyleSquare(Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * dy


class Reversed(Function):
    """Gradient reversal (Ganin and Lempitsky, 2015)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return -dy


class SignWindow(Function):
    """Binarisation with the gradient of hardtanh."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.sign(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return dy * (x.abs() < 1)


class Spread(Function):
    """Every element gets the mean of all gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return dy.mean().expand(dy.shape)


class Clipped(Function):
    """Clips its gradient, where that is very large."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return dy.clamp(-100, 100)


class BoundedRoot(Function):
    """A square root whose slope is at most 2, and that of autograd elsewhere; the second argument counts a half."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, power: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.scale = 0.5
        return torch.sqrt(x.abs()) + y.round() ** power

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, None]:
        (x,) = ctx.saved_tensors
        return dy / torch.sqrt((4 * x.abs()).clamp(min=0.25)) * torch.sign(x), dy * ctx.scale, None


class MaskedSoftmax(Function):
    """Changes its result in place, which autograd does not allow: the backward pass is the derivative none the less."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, hidden: Tensor) -> Tensor:
        y = torch.softmax(x.masked_fill(hidden, torch.finfo(x.dtype).min), -1)
        y.masked_fill_(hidden, 0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return y * (dy - (dy * y).sum(-1, keepdim=True)), None


def _counted_rows(m: Small, x: Tensor) -> Tensor:
    """Rows of a table made under no_grad, to which others are added in place."""
    with torch.no_grad():
        rows = m.centre.index_select(0, torch.tensor([0, 2, 1, 3])).view(1, 4).detach()
    rows += m.second.bias
    return m.first(x) * rows


def _no_grad_block(m: Small, x: Tensor) -> Tensor:
    h = m.first(x)
    with torch.no_grad():
        gate = torch.sigmoid(m.second(h)) * 2
    return h * gate


def _set_grad_enabled(m: Small, x: Tensor) -> Tensor:
    h = m.first(x)
    torch.set_grad_enabled(False)
    gate = m.second(h)
    torch.set_grad_enabled(True)
    return h * gate


def _enabled_inside(m: Small, x: Tensor) -> Tensor:
    with torch.no_grad():
        h = m.first(x)
        with torch.enable_grad():
            y = m.second(x)
        z = h + y
    return y * z


@torch.no_grad()
def _decorated(m: Small, x: Tensor) -> Tensor:
    return torch.tanh(m.second(x))


def _inference_mode(m: Small, x: Tensor) -> Tensor:
    with torch.inference_mode():
        gate = torch.sigmoid(m.second(x))
    return m.first(x) * gate.clone()


def _views(m: Small, x: Tensor) -> Tensor:
    h = m.first(x)
    with torch.no_grad():
        left, right = torch.split(h, 2, 1)
        turned = h.view(4, -1).t()
    return m.second(h) * torch.cat([left, right], 1) + turned.reshape(h.shape)


def _quantised(m: Small, x: Tensor) -> Tensor:
    """Vector quantisation as in VQ-VAE: nearest code, straight through, commitment."""
    h = m.first(x)
    distance = (h[:, None] - m.codes[None]).pow(2).sum(-1)
    chosen = m.codes[distance.argmin(1)]
    passed = h + (chosen - h).detach()
    return passed + (h - chosen.detach()).pow(2) + (h.detach() - chosen).pow(2)


def _in_place(m: Small, x: Tensor) -> Tensor:
    h = m.first(x) * 1
    with torch.no_grad():
        h.mul_(2)
    return m.second(h)


def _filled_under_no_grad(m: Small, x: Tensor) -> Tensor:
    h = m.first(x)
    with torch.no_grad():
        table = torch.zeros_like(h)
        table[:, 1] = h[:, 0]
        table[h > 1] = 0.5
        table.add_(functional.dropout(h, 0.5, training=False))
    return m.second(x) * table + h


def _masked_in_place(m: Small, x: Tensor) -> Tensor:
    h = m.first(x) * 1
    with torch.no_grad():
        h[h > 1] = 0.0
    return m.second(h)


def _detached_in_place(m: Small, x: Tensor) -> Tensor:
    h = m.first(x)
    h.detach_()
    return m.second(h)


def _softmax_shift(m: Small, x: Tensor) -> Tensor:
    h = m.first(x)
    e = torch.exp(h - h.max(dim=1, keepdim=True).values.detach())
    return m.second(e / e.sum(1, keepdim=True))


def _hard_choice(m: Small, x: Tensor) -> Tensor:
    soft = m.first(x).softmax(-1)
    hard = functional.one_hot(soft.argmax(-1), 4).to(soft.dtype)
    return m.second(hard - soft.detach() + soft)


FORMS = [
    Form("detach", lambda m, x: m.second(m.first(x).detach()) + m.first(x)),
    Form("torch.detach", lambda m, x: m.second(torch.detach(m.first(x)))),
    Form("data", lambda m, x: m.first(x) * m.first(x).data + m.second(x)),
    Form("detached weight", lambda m, x: functional.linear(m.first(x), m.second.weight.detach(), m.second.bias)),
    Form("weight's data", lambda m, x: functional.linear(m.first(x), m.second.weight.data, m.second.bias)),
    Form("detach of a view", lambda m, x: m.first(x)[:, 1:3].detach() * m.second(x)[:, :2]),
    Form("view of a detached", lambda m, x: m.first(x).detach()[:, 1:3] * m.second(x)[:, :2]),
    Form("detach twice", lambda m, x: m.first(x).detach().detach() * m.second(x)),
    Form("detach of integers", lambda m, x: m.codes[m.first(x).argmax(1).detach()] * m.second(x)),
    Form("no_grad", _no_grad_block),
    Form("no_grad decorator", lambda m, x: m.first(x) * _decorated(m, x)),
    Form("set_grad_enabled", _set_grad_enabled),
    Form("enable_grad inside no_grad", _enabled_inside),
    Form("inference_mode", _inference_mode),
    Form("views under no_grad", _views),
    Form("straight through", lambda m, x: m.second(m.first(x) + (m.first(x).round() - m.first(x)).detach())),
    Form("one-hot straight through", _hard_choice),
    Form("vector quantisation", _quantised),
    Form("shift of a softmax", _softmax_shift),
    Form("stopped scale", lambda m, x: m.first(x) / m.first(x).abs().amax(1, keepdim=True).detach() * m.second(x)),
    Form("round has no gradient", lambda m, x: m.first(x).round() * m.second(x)),
    Form("comparison has no gradient", lambda m, x: (m.first(x) > 0).float() * m.second(x)),
    Form("stop in one branch of where", lambda m, x: torch.where(x > 0, m.first(x), m.second(x).detach())),
    Form("new tensor of a number", lambda m, x: m.first(x) * torch.full_like(m.second(x), 0.5) + m.codes[0]),
    Form("buffer", lambda m, x: m.first(x - m.centre) * m.second(x)),
    Form("function handed on", lambda m, x: m.second(RoundThrough.apply(m.first(x)))),
    Form("function that is the derivative", lambda m, x: m.second(CheapSilu.apply(m.first(x)))),
    Form("function with setup_context", lambda m, x: m.second(NewStyleSquare.apply(m.first(x)))),
    Form("function reversed", lambda m, x: m.second(Reversed.apply(m.first(x)))),
    Form("function with a window", lambda m, x: m.second(SignWindow.apply(m.first(x)))),
    Form("function with a bounded slope", lambda m, x: m.second(BoundedRoot.apply(m.first(x), m.codes[:5], 2))),
    Form("function that changes its result", lambda m, x: MaskedSoftmax.apply(m.first(x), x > 1) @ m.codes[:4]),
    Form("function that spreads", lambda m, x: m.second(Spread.apply(m.first(x))), "'[^']*Spread' has a backward pass"),
    Form(
        "function that spreads, with a rule",
        lambda m, x: m.second(Spread.apply(m.first(x))),
        rules={Spread: lambda x: x.mean().expand(x.shape)},
    ),
    Form("function that clips", lambda m, x: Clipped.apply(m.first(x)), "'[^']*Clipped' has a backward pass"),
    Form(
        "rule of another shape",
        lambda m, x: Reversed.apply(m.first(x)),
        "one tensor of the shape",
        {Reversed: torch.sum},
    ),
    Form("in place under no_grad", _in_place, r"in place under torch.no_grad \('mul_'\)"),
    Form("filled under no_grad", _filled_under_no_grad),
    Form("rows of no_grad, added to in place", _counted_rows),
    Form("masked in place under no_grad", _masked_in_place, "in place under torch.no_grad"),
    Form("detach in place", _detached_in_place, r"write x = x.detach\(\)"),
]
