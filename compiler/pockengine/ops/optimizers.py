"""Optimizer updates as composites: (parameter, gradient, learning rate, state..., shared...) -> (new parameter, new
state...).

The learning rate is a rank-0 value: a constant, or what a schedule computes. Formulas follow PyTorch's `torch.optim`
where it has the optimizer. Bias corrections 1 - beta^t are states shared by all parameters, kept by the recurrence
c <- beta c + (1 - beta), which is exact where 1 - beta^t computed in float32 is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir import Attrs, Value
from .composites import composite
from .emitter import Emitter
from .registry import Sample

Shape = tuple[int, ...]
STEP = "step"
"""The shared input that is the number of this optimizer step, counted from 1, as a float."""


@dataclass(frozen=True)
class OptimizerSpec:
    """
    op            the composite
    state_shapes  state tensors of a parameter, from its shape
    shared        further inputs, each `step` or the attribute name of a beta whose bias correction it is
    attrs         names of the hyper-parameters that it needs (defaults are the recipe's)
    squares       those state tensors that are second moments"""

    op: str
    state_shapes: Callable[[Shape], dict[str, Shape]]
    shared: tuple[str, ...]
    attrs: tuple[str, ...]
    squares: tuple[str, ...] = ()


def _alike(*names: str) -> Callable[[Shape], dict[str, Shape]]:
    """Slots of the parameter's own shape."""
    return lambda shape: dict.fromkeys(names, shape)


def _number(attrs: Attrs, key: str) -> float:
    return float(attrs[key])


def _decayed(e: Emitter, w: Value, g: Value, attrs: Attrs) -> Value:
    """L2 regularisation: g + weight_decay * w."""
    decay = _number(attrs, "weight_decay")
    return e.add(g, e.mul(w, decay)) if decay else g


def _shrunk(e: Emitter, w: Value, lr: Value, attrs: Attrs) -> Value:
    """Decoupled weight decay: (1 - lr * weight_decay) w."""
    decay = _number(attrs, "weight_decay")
    return e.mul(w, e.sub(1.0, e.mul(lr, decay))) if decay else w


def _blend(e: Emitter, beta: float, old: Value, new: Value) -> Value:
    return e.add(e.mul(old, beta), e.mul(new, 1.0 - beta))


def _norm(e: Emitter, x: Value) -> Value:
    """L2 norm of the whole tensor, a rank-0 value."""
    return e.op("sqrt", e.sum(e.mul(x, x), range(x.type.rank), keepdims=False))


def _sgd(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    w, g, lr = inputs
    return [e.sub(w, e.mul(_decayed(e, w, g, attrs), lr))]


def _sgd_momentum(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    w, g, lr, velocity = inputs
    momentum = _number(attrs, "momentum")
    g = _decayed(e, w, g, attrs)
    velocity = e.add(e.mul(velocity, momentum), g)
    step = e.add(g, e.mul(velocity, momentum)) if attrs["nesterov"] else velocity
    return [e.sub(w, e.mul(step, lr)), velocity]


def _moments(e: Emitter, inputs: Sequence[Value], g: Value, attrs: Attrs) -> tuple[Value, Value, Value]:
    """New first and second moment of Adam, and the root of the corrected second one plus eps."""
    m = _blend(e, _number(attrs, "beta1"), inputs[3], g)
    v = _blend(e, _number(attrs, "beta2"), inputs[4], e.mul(g, g))
    denominator = e.add(e.mul(e.op("sqrt", v), e.op("rsqrt", inputs[6])), _number(attrs, "eps"))
    return m, v, denominator


def _adam(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    w, g, lr, _, _, c1, _ = inputs
    m, v, denominator = _moments(e, inputs, _decayed(e, w, g, attrs), attrs)
    return [e.sub(w, e.mul(e.div(m, denominator), e.div(lr, c1))), m, v]


def _adamw(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    w, g, lr, _, _, c1, _ = inputs
    w = _shrunk(e, w, lr, attrs)
    m, v, denominator = _moments(e, inputs, g, attrs)
    return [e.sub(w, e.mul(e.div(m, denominator), e.div(lr, c1))), m, v]


def _lamb(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """You et al. 2020, arXiv 1904.00962v5, algorithm 2 with phi(z) = z; a zero norm leaves the step as it is."""
    w, g, lr, _, _, c1, _ = inputs
    m, v, denominator = _moments(e, inputs, g, attrs)
    step = _decayed(e, w, e.div(e.div(m, c1), denominator), attrs)
    size, wanted = _norm(e, step), _norm(e, w)
    usable = e.op("logical_and", e.less(0.0, size), e.less(0.0, wanted))
    trust = e.where(usable, e.div(wanted, size), 1.0)
    return [e.sub(w, e.mul(step, e.mul(lr, trust))), m, v]


def _lion(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """Chen et al. 2023, arXiv 2302.06675, algorithm 2."""
    w, g, lr, m = inputs
    step = e.op("sign", _blend(e, _number(attrs, "beta1"), m, g))
    step = _decayed(e, w, step, attrs)
    return [e.sub(w, e.mul(step, lr)), _blend(e, _number(attrs, "beta2"), m, g)]


def _adafactor_shapes(shape: Shape) -> dict[str, Shape]:
    """Means over the last axis and over the one before it; a vector keeps all of its second moment."""
    if len(shape) < 2:
        return {"variance": shape}
    return {"row_variance": (*shape[:-1], 1), "column_variance": (*shape[:-2], 1, shape[-1])}


def _adafactor(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """Shazeer & Stern 2018, arXiv 1804.04235, as `torch.optim.Adafactor` has it."""
    w, g, lr, *variances, step = inputs
    fresh = e.op("pow", step, e.scalar(_number(attrs, "beta2_decay"), step))
    root = math.sqrt(w.type.size)
    relative = e.maximum(e.mul(_norm(e, w), 1.0 / root), _number(attrs, "eps2"))
    alpha = e.mul(relative, e.op("minimum", lr, e.op("rsqrt", step)))
    squared = e.mul(g, g)
    means = [squared] if len(variances) == 1 else [e.mean(squared, [-1]), e.mean(squared, [-2])]
    new = [e.add(old, e.mul(e.sub(mean, old), fresh)) for old, mean in zip(variances, means, strict=True)]
    floor = _number(attrs, "eps1")
    estimate = new[0]
    if len(new) == 2:
        estimate = e.mul(e.div(new[0], e.maximum(e.mean(new[0], [-2]), floor)), new[1])
    update = e.mul(e.op("rsqrt", e.maximum(estimate, floor * floor)), g)
    excess = e.maximum(e.mul(_norm(e, update), 1.0 / (root * _number(attrs, "d"))), 1.0)
    return [e.sub(_shrunk(e, w, lr, attrs), e.mul(update, e.div(alpha, excess))), *new]


_SGD_ATTRS = ("momentum", "nesterov", "weight_decay")
_ADAM_ATTRS = ("beta1", "beta2", "eps", "weight_decay")
_BETAS = ("beta1", "beta2")

OPTIMIZERS: dict[str, OptimizerSpec] = {
    "sgd": OptimizerSpec("sgd", _alike(), (), ("weight_decay",)),
    "adam": OptimizerSpec("adam", _alike("m", "v"), _BETAS, _ADAM_ATTRS, ("v",)),
    "adamw": OptimizerSpec("adamw", _alike("m", "v"), _BETAS, _ADAM_ATTRS, ("v",)),
    "lion": OptimizerSpec("lion", _alike("m"), (), ("beta1", "beta2", "weight_decay")),
    "adafactor": OptimizerSpec(
        "adafactor", _adafactor_shapes, (STEP,), ("beta2_decay", "eps1", "eps2", "d", "weight_decay")
    ),
    "lamb": OptimizerSpec("lamb", _alike("m", "v"), _BETAS, _ADAM_ATTRS, ("v",)),
}
"""Recipe name -> optimizer."""

MOMENTUM = OptimizerSpec("sgd_momentum", _alike("momentum"), (), _SGD_ATTRS)
"""What `sgd` becomes when its momentum is not zero."""

_SAMPLE = {"momentum": 0.9, "nesterov": False, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1} | {
    "beta2_decay": -0.8,
    "eps1": 1e-7,
    "eps2": 1e-3,
    "d": 1.0,
}


def _sample(spec: OptimizerSpec, shape: Shape = (5, 3), **changes: float | bool) -> Sample:
    shapes = [shape, shape, (), *spec.state_shapes(shape).values(), *[() for _ in spec.shared]]
    texts = tuple(f"f32[{','.join(map(str, dims))}]" for dims in shapes)
    return Sample(texts, {**{name: _SAMPLE[name] for name in spec.attrs}, **changes}, low=0.1)


_UPDATE = "an update: nothing is differentiated through it"
composite("sgd", _sgd, (_sample(OPTIMIZERS["sgd"]),), singular=_UPDATE)
composite(
    "sgd_momentum",
    _sgd_momentum,
    tuple(_sample(MOMENTUM, nesterov=nesterov) for nesterov in (False, True)),
    singular=_UPDATE,
)
for _name, _expand in (("adam", _adam), ("adamw", _adamw), ("lion", _lion), ("lamb", _lamb)):
    composite(_name, _expand, (_sample(OPTIMIZERS[_name]),), singular=_UPDATE)
composite(
    "adafactor",
    _adafactor,
    tuple(_sample(OPTIMIZERS["adafactor"], shape) for shape in ((5, 3), (7,), (2, 3, 4))),
    singular=_UPDATE,
)
