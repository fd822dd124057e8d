"""Augmentation: what a training step changes about its samples first, at random. Evaluation and prediction never do.

All of it is written in plain operators, so that it is fused, planned and costed as the model is, and computed by any
backend. Random numbers come from the step's `generator`, each drawing under a number of its own (see `uniform`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..errors import RecipeError, nearest
from ..ir import Array, Builder, DType, Graph, TensorType, Value, substitute, verify
from ..ops import Emitter
from ..ops.random import seed_of, uniform
from ..recipe import Recipe, batch_of
from ..recipe.augment import Augmentation, Crop, Flip, Mixup, Noise, Placing
from ..recipe.losses.kinds import Loss
from ..recipe.losses.own import LossGraph
from .generator import generator_of

FIRST_SITE = 1 << 16
"""Of the numbers that drawings have; those before it are for the rounding of optimizer state."""
SHARES = 1024
"""Different shares that a mixup draws from."""
_COLOURS = 4
"""The most channels that an axis is taken for those of an image with."""

_Draw = Callable[[Sequence[int]], Value]
"""Shape -> f32 in [0, 1), new numbers at each call."""


def with_augmentation(model: Graph, recipe: Recipe) -> tuple[Graph, Value | None]:
    """The model on changed inputs, and of a mixup the share (f32 of rank 0) that a sample's own targets have in the
    loss. Raises RecipeError where an operation does not fit the model.

    %y = f(%x)   ->   %x.1 = …(%x, %generator); %y = f(%x.1)
    """
    if not recipe.augment:
        return model, None
    builder = Builder.extend(model)
    generator = generator_of(builder)
    model = builder.finish()
    builder = Builder(model.name)
    builder.adopt_sources(model)
    builder.origin = "augment"
    e, sites, share = Emitter(builder), itertools.count(FIRST_SITE), None
    seed = seed_of(e, generator)

    def draw(shape: Sequence[int]) -> Value:
        return uniform(e, shape, seed, next(sites))

    changed: dict[Value, Value] = {}
    for one in recipe.augment:
        given = _input(one, model, recipe)
        x = changed.get(given, given)
        match one:
            case Flip():
                x = _flip(e, one, x, draw)
            case Crop():
                x = _crop(e, one, x, draw)
            case Noise():
                x = _noise(e, one, x, draw)
            case Mixup():
                share = _share(e, one, draw)
                x = _mixed(e, x, share)
        changed[given] = x
    for node in model.nodes:
        builder.keep(substitute(node, changed))
    builder.outputs = {name: changed.get(value, value) for name, value in model.outputs.items()}
    builder.updates = {target: changed.get(value, value) for target, value in model.updates.items()}
    return verify(builder.finish(), "augment"), share


def refuse_unmoved(recipe: Recipe, inputs: Sequence[Value]) -> None:
    """Raise RecipeError where a loss reads an input whose elements lie as those of a sample do, which are moved."""
    moving = next((one.name for one in recipe.augment if isinstance(one, Placing)), None)
    read = {name for loss in recipe.loss for name in _read(loss)}
    for value in inputs:
        if moving and value.name in read and value.type.rank > 2:
            raise RecipeError(
                f"'{moving}' moves what is in a sample, and the loss reads '{value.name}', {value.type}, which would "
                f"have to move with it: leave {moving} out, or move both in the data"
            )


def rolled(e: Emitter, x: Value) -> Value:
    """The next sample of the batch in the place of each; the first one follows the last."""
    return e.op("gather", x, e.const(np.roll(np.arange(x.type.shape[0]), -1)), axis=0)


def _read(loss: Loss) -> tuple[str, ...]:
    """Names of what a loss reads besides outputs of the model (of the user's own loss, with these)."""
    found = (*(loss.inputs or ()),) if isinstance(loss, LossGraph) else (loss.target, loss.mask)
    return tuple(name for name in found if name is not None)


def _input(one: Augmentation, model: Graph, recipe: Recipe) -> Value:
    """The input that an operation changes. Raises RecipeError."""
    known = {value.name: value for value in model.inputs}
    if one.input is None:
        value = _images(one, model.inputs)
    elif one.input in known:
        value = known[one.input]
    else:
        raise RecipeError(f"{one.name}: the model has no input '{one.input}'{nearest(one.input, known)}")
    if any(value.name in _read(loss) for loss in recipe.loss):
        raise RecipeError(f"'{one.name}' would change '{value.name}', which a loss reads as it is")
    if isinstance(one, Noise | Mixup) and not value.type.dtype.is_float:
        raise RecipeError(f"'{one.name}' is for numbers, and the input '{value.name}' is {value.type}")
    if isinstance(one, Mixup):
        _refuse_lonely(value, model, recipe)
    return value


def _images(one: Augmentation, inputs: Sequence[Value]) -> Value:
    """The input meant where the recipe names none."""
    for found in (
        [value for value in inputs if value.type.rank == 4],
        [value for value in inputs if value.type.dtype.is_float and value.type.rank > 1],
    ):
        if len(found) == 1:
            return found[0]
    names = ", ".join(f"{value.name} ({value.type})" for value in inputs)
    raise RecipeError(f"augment: say which input '{one.name}' changes, as in 'input: NAME': the model has {names}")


def _refuse_lonely(value: Value, model: Graph, recipe: Recipe) -> None:
    """Raise RecipeError where samples have nothing to be mixed with, or something that is not mixed."""
    samples, batch = value.type.shape[0], batch_of(recipe, model)
    if samples < 2:
        raise RecipeError("mixup mixes the samples of a batch, and there is one: let 'batch' be 2 or more")
    if samples != batch:
        raise RecipeError(f"mixup mixes samples, and {samples} rows of '{value.name}' make {batch}: leave mixup out")
    others = [other.name for other in model.inputs if other is not value]
    if others:
        raise RecipeError(
            f"mixup mixes samples, and a sample is more than '{value.name}' here: the model reads {', '.join(others)}"
        )


def _flip(e: Emitter, one: Flip, x: Value, draw: _Draw) -> Value:
    batch = x.type.shape[0]
    for axis in _axes(one, x.type, _pixels(x.type)[-1:]):
        mirrored = e.op("gather", x, e.const(np.arange(x.type.shape[axis])[::-1]), axis=axis)
        chosen = e.reshape(e.less(draw((batch,)), one.p), (batch, *[1] * (x.type.rank - 1)))
        x = e.where(chosen, mirrored, x)
    return x


def _crop(e: Emitter, one: Crop, x: Value, draw: _Draw) -> Value:
    axes, batch = _axes(one, x.type, _pixels(x.type)), x.type.shape[0]
    if not _holds(x.type.dtype, one.fill):
        raise RecipeError(f"crop.fill must be a number that {x.type.dtype.value} holds, not {one.fill:g}")
    dtype, rank = DType.I32 if x.type.size < 2**31 else DType.I64, max(axes) + 1
    places, inside = {}, None
    for axis in axes:
        size = x.type.shape[axis]
        if one.padding >= size:
            raise RecipeError(
                f"crop with padding {one.padding} could cut nothing but padding out of axis {axis} of {x.type}: "
                f"the most is {size - 1}"
            )
        moved = e.sub(e.cast(e.op("floor", e.mul(draw((batch,)), 2.0 * one.padding + 1)), dtype), one.padding)
        wanted = e.add(e.reshape(moved, (batch, *[1] * (rank - 1))), _line(e, np.arange(size), axis, rank, dtype))
        places[axis] = e.op("minimum", e.maximum(wanted, 0), e.scalar(size - 1, wanted))
        here = e.op("equal", wanted, places[axis])
        inside = here if inside is None else e.op("logical_and", inside, here)
    assert inside is not None
    inside = e.reshape(inside, inside.type.shape + (1,) * (x.type.rank - rank))
    return e.where(inside, _taken(e, x, places), one.fill)


def _holds(dtype: DType, number: float) -> bool:
    """Whether an element of this type can be the number, rounded where it is of floating point."""
    if dtype.is_float:
        return True
    try:
        return float(np.array(int(number), dtype.numpy)) == number
    except OverflowError:
        return False


def _noise(e: Emitter, one: Noise, x: Value, draw: _Draw) -> Value:
    """By Box and Muller's transform, "A Note on the Generation of Random Normal Deviates", 1958.

    Computed in a view of long rows, marked as kept, so that the kernel's inner loop is one row whatever layout the
    model has: along three colours it takes several times as long."""
    flat = e.op("reshape", x, shape=_rows(x.type.size), kept=True)
    first, second = draw(flat.type.shape), draw(flat.type.shape)
    radius = e.op("sqrt", e.mul(e.op("log", e.sub(1.0, first)), -2.0))
    normal = e.mul(radius, e.op("cos", e.mul(second, 2 * math.pi)))
    noisy = e.add(e.cast(flat, DType.F32), e.mul(normal, one.std))
    return e.op("reshape", e.cast(noisy, x.type.dtype), shape=x.type.shape, kept=True)


def _rows(size: int) -> tuple[int, int]:
    """So many elements as a matrix, as near to a square as can be: the constants of `uniform` are then small."""
    rows = next(rows for rows in range(math.isqrt(size) or 1, 0, -1) if size % rows == 0)
    return rows, size // rows


def _mixed(e: Emitter, x: Value, share: Value) -> Value:
    mine, other = (e.cast(sample, DType.F32) for sample in (x, rolled(e, x)))
    return e.cast(e.add(e.mul(mine, share), e.mul(other, e.sub(1.0, share))), x.type.dtype)


def _share(e: Emitter, one: Mixup, draw: _Draw) -> Value:
    place = e.cast(e.op("floor", e.mul(draw((1,)), float(SHARES))), DType.I32)
    return e.reshape(e.op("gather", e.const(beta_quantiles(one.alpha), DType.F32), place, axis=0), ())


def beta_quantiles(alpha: float) -> Array:
    """Numbers [1024] in rising order, each as likely as any other in the beta distribution with both parameters
    `alpha`: its quantiles in the middles of 1024 equal parts of [0, 1]."""
    power = max(1.0, 1.0 / alpha)
    root = np.linspace(0.0, 0.5 ** (1.0 / power), 8193)
    at = root**power
    # The density of `root`: without the pole that the density of `at` has at 0 for alpha < 1.
    density = root ** (power * alpha - 1.0) * (1.0 - at) ** (alpha - 1.0)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) * np.diff(root))])
    lower = np.interp((np.arange(SHARES // 2) + 0.5) / SHARES, 0.5 * below / below[-1], root) ** power
    return np.concatenate([lower, 1.0 - lower[::-1]])


def _taken(e: Emitter, x: Value, places: Mapping[int, Value]) -> Value:
    """x with element places[axis] of each axis in `places`, which are [batch, …] and end at the last of these axes."""
    shape, rank = x.type.shape, max(places) + 1
    steps = [math.prod(shape[axis + 1 : rank]) for axis in range(rank)]
    index = None
    for axis, place in places.items():
        term = e.mul(place, steps[axis])
        index = term if index is None else e.add(index, term)
    assert index is not None
    for axis in range(rank):  # one by one: constants alone would be folded to one as large as the input
        if axis not in places:
            index = e.add(index, _line(e, np.arange(shape[axis]) * steps[axis], axis, rank, index.type.dtype))
    rows = e.reshape(x, (math.prod(shape[:rank]), math.prod(shape[rank:])))
    return e.reshape(e.op("gather", rows, e.reshape(index, (index.type.size,)), axis=0), shape)


def _line(e: Emitter, line: Array, axis: int, rank: int, dtype: DType) -> Value:
    """Numbers along one axis of this rank."""
    return e.const(line.reshape(*[1] * axis, -1, *[1] * (rank - 1 - axis)), dtype)


def _pixels(type: TensorType) -> tuple[int, ...]:
    """Axes of the input [samples, …] along which elements of a sample lie side by side: of an image those of its
    pixels, [samples, height, width, colours] where only the last axis is short enough for colours; else the last."""
    if type.rank != 4:
        return (type.rank - 1,)
    return (1, 2) if type.shape[1] > _COLOURS >= type.shape[3] else (2, 3)


def _axes(one: Placing, type: TensorType, default: tuple[int, ...]) -> tuple[int, ...]:
    """The axes meant, in rising order. Raises RecipeError."""
    axes = {axis + type.rank if axis < 0 else axis for axis in one.axes or default}
    if len(axes) < len(one.axes or default) or not axes <= set(range(1, type.rank)):
        raise RecipeError(
            f"{one.name}.axes are {list(one.axes or default)}, and the input is {type}: name each axis once, "
            "and none but those after the first"
        )
    return tuple(sorted(axes))
