"""Optimizer updates as composites: (parameter, gradient, state...) -> (new parameter, new state...).

Formulas follow PyTorch's `torch.optim`. Bias corrections 1 - beta^t are states shared by all parameters, kept by the
recurrence c <- beta c + (1 - beta), which is exact where 1 - beta^t computed in float32 is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir import Attrs, Value
from .composites import composite
from .emitter import Emitter
from .registry import Sample


@dataclass(frozen=True)
class OptimizerSpec:
    """op: the composite. slots: per-parameter state tensors. corrections: attribute names of the betas whose shared
    bias correction the op takes as further inputs. attrs: names of the hyper-parameters it needs (defaults are the
    recipe's)."""

    op: str
    slots: tuple[str, ...]
    corrections: tuple[str, ...]
    attrs: tuple[str, ...]


def _number(attrs: Attrs, key: str) -> float:
    return float(attrs[key])


def _decayed(e: Emitter, w: Value, g: Value, attrs: Attrs) -> Value:
    """L2 regularisation: g + weight_decay * w."""
    decay = _number(attrs, "weight_decay")
    return e.add(g, e.mul(w, decay)) if decay else g


def _blend(e: Emitter, beta: float, old: Value, new: Value) -> Value:
    return e.add(e.mul(old, beta), e.mul(new, 1.0 - beta))


def _sgd(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    w, g = inputs
    return [e.sub(w, e.mul(_decayed(e, w, g, attrs), _number(attrs, "lr")))]


def _sgd_momentum(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    w, g, velocity = inputs
    momentum, lr = _number(attrs, "momentum"), _number(attrs, "lr")
    g = _decayed(e, w, g, attrs)
    velocity = e.add(e.mul(velocity, momentum), g)
    step = e.add(g, e.mul(velocity, momentum)) if attrs["nesterov"] else velocity
    return [e.sub(w, e.mul(step, lr)), velocity]


def _adam_step(e: Emitter, inputs: Sequence[Value], g: Value, w: Value, attrs: Attrs) -> Sequence[Value]:
    _, _, m, v, c1, c2 = inputs
    m = _blend(e, _number(attrs, "beta1"), m, g)
    v = _blend(e, _number(attrs, "beta2"), v, e.mul(g, g))
    denominator = e.add(e.mul(e.op("sqrt", v), e.op("rsqrt", c2)), _number(attrs, "eps"))
    rate = e.div(_number(attrs, "lr"), c1)
    return [e.sub(w, e.mul(e.div(m, denominator), rate)), m, v]


def _adam(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    return _adam_step(e, inputs, _decayed(e, inputs[0], inputs[1], attrs), inputs[0], attrs)


def _adamw(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    decay = _number(attrs, "lr") * _number(attrs, "weight_decay")
    w = e.mul(inputs[0], 1.0 - decay) if decay else inputs[0]
    return _adam_step(e, inputs, inputs[1], w, attrs)


def _lion(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """Chen et al. 2023, arXiv 2302.06675, algorithm 2."""
    w, g, m = inputs
    step = e.op("sign", _blend(e, _number(attrs, "beta1"), m, g))
    decay = _number(attrs, "weight_decay")
    step = e.add(step, e.mul(w, decay)) if decay else step
    return [e.sub(w, e.mul(step, _number(attrs, "lr"))), _blend(e, _number(attrs, "beta2"), m, g)]


_SGD_ATTRS = ("lr", "momentum", "nesterov", "weight_decay")
_ADAM_ATTRS = ("lr", "beta1", "beta2", "eps", "weight_decay")

OPTIMIZERS: dict[str, OptimizerSpec] = {
    "sgd": OptimizerSpec("sgd", (), (), ("lr", "weight_decay")),
    "adam": OptimizerSpec("adam", ("m", "v"), ("beta1", "beta2"), _ADAM_ATTRS),
    "adamw": OptimizerSpec("adamw", ("m", "v"), ("beta1", "beta2"), _ADAM_ATTRS),
    "lion": OptimizerSpec("lion", ("m",), (), ("lr", "beta1", "beta2", "weight_decay")),
}
"""Recipe name -> optimizer."""

MOMENTUM = OptimizerSpec("sgd_momentum", ("momentum",), (), _SGD_ATTRS)
"""What `sgd` becomes when its momentum is not zero."""

_W = ("f32[5,3]", "f32[5,3]")
_SAMPLE = {"lr": 0.1, "momentum": 0.9, "nesterov": False, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1}


def _sample(shapes: tuple[str, ...], attrs: tuple[str, ...], **changes: float | bool) -> Sample:
    return Sample(shapes, {**{name: _SAMPLE[name] for name in attrs}, **changes}, low=0.1)


composite("sgd", _sgd, (_sample(_W, OPTIMIZERS["sgd"].attrs),))
composite(
    "sgd_momentum", _sgd_momentum, tuple(_sample((*_W, "f32[5,3]"), _SGD_ATTRS, nesterov=n) for n in (False, True))
)
for _name, _expand in (("adam", _adam), ("adamw", _adamw)):
    composite(_name, _expand, (_sample((*_W, "f32[5,3]", "f32[5,3]", "f32[]", "f32[]"), _ADAM_ATTRS),))
composite("lion", _lion, (_sample((*_W, "f32[5,3]"), OPTIMIZERS["lion"].attrs),))
