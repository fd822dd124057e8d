"""What the data say of each unit's gradient: mean, spread and direction, from one backward pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...artifact import Artifact, Session
from ...errors import DataError
from ...ir import Array
from ...recipe import Recipe
from ..space import Space, Unit
from .kept import KeptArrays
from .samples import Samples
from .work import Clock, Data, Work, identity_of

_BATCHES, _KINDS = "batches", ("total", "squares", "scalings")


@dataclass(frozen=True)
class Moments:
    """What the batches said of one unit's gradient, for each input channel or, where it has none, for all of it: f64
    [channels] or [1].

    squares      the squared norm of a batch's gradient, the mean over the batches
    mean         the squared norm of the mean gradient
    scalings     the square of ⟨weight, a batch's gradient⟩, the mean over the batches
    mean_scaling the square of ⟨weight, mean gradient⟩
    held         for each rank of the unit's adapters, the part of the mean gradient's squared norm that a matrix of
                 that rank can have"""

    squares: Array
    mean: Array
    scalings: Array
    mean_scaling: Array
    held: tuple[float, ...] = ()


@dataclass(frozen=True)
class GradientStatistics:
    """Moments of a sample's gradient, estimated from `batches` batches of `batch` samples each.

    A batch's gradient is the mean of its samples', so its expected square is |μ|² + s²/batch, with μ the mean of the
    samples' gradients and s² their spread. Both follow from the batches, without bias and without a sample's own
    gradient; with a batch of one sample it is that."""

    units: Mapping[str, Moments]
    batches: int
    batch: int

    def fisher(self, name: str) -> Array:
        """The sum of the squares of a sample's gradient, the mean over the samples: the trace of the empirical Fisher
        information of the channel's numbers."""
        one = self.units[name]
        return self._of_a_sample(one.squares, one.mean)

    def activation_fisher(self, name: str) -> Array:
        """Half the mean over samples of (Σ a·∂loss/∂a)², a being what the layer reads of an input channel: the Fisher
        information of TinyTrain (arXiv 2307.09988), on the layer's input. Scaling the channel by 1 + ε changes the loss
        as scaling the channel's weights does, so it is ⟨weight, gradient⟩²."""
        one = self.units[name]
        return self._of_a_sample(one.scalings, one.mean_scaling) / 2.0

    def signal(self, name: str) -> Array:
        """The squared norm of the mean of the samples' gradients, without what chance adds to it."""
        one = self.units[name]
        positive: Array = np.maximum(self._signal(one.squares, one.mean), 0.0)
        return positive

    def _of_a_sample(self, squares: Array, mean: Array) -> Array:
        if self.batch == 1:
            return squares
        signal = self._signal(squares, mean)
        found: Array = np.maximum(self.batch * (squares - signal) + signal, 0.0)
        return found

    def _signal(self, squares: Array, mean: Array) -> Array:
        signal: Array = (self.batches * mean - squares) / (self.batches - 1)
        return signal


class GradientSession:
    """The gradients of a space's units, at whatever contents the session's parameters have.

    It is compiled as training everything with Lion at the learning rate 0: with both betas 0 the momentum is the
    gradient, and no parameter moves."""

    def __init__(self, space: Space, work: Work) -> None:
        self.space = space
        self.recipe = gradient_recipe(space)
        self.artifact = work.compiled(space, self.recipe)
        self._names = _momentum_names(space, self.artifact)
        self.session: Session = self.artifact.load()

    def gradients(self, batch: Mapping[str, Array]) -> Iterator[tuple[Unit, Array]]:
        """Each unit with the gradient of the mean loss of a batch. Raises DataError where it is not finite."""
        self.session.step(batch)
        for unit in self.space.units:
            gradient = self.session.tensor(self._names[unit.name])
            if not np.isfinite(gradient).all():
                raise DataError(f"the gradient of '{unit.name}' is not finite: the model or the data are at fault")
            yield unit, gradient

    def close(self) -> None:
        """Frees memory and threads."""
        self.session.close()


def gradient_recipe(space: Space) -> Recipe:
    """What is compiled to see gradients."""
    watching = space.base.with_(
        optimizer={"name": "lion", "lr": 0.0, "betas": [0.0, 0.0]},
        accumulate=1,
        ema=None,
        last_batch="drop",
        dropout=False,
        lora=None,
        frozen=None,
        augment=(),
    )
    return Space(space.graph, watching, space.units).recipe(space.full)


def _momentum_names(space: Space, artifact: Artifact) -> dict[str, str]:
    """Unit -> the optimizer state that holds its gradient. Raises DataError where the model has a tensor of that
    name."""
    states = {tensor.name for tensor in artifact.manifest.tensors if tensor.role == "state"}
    names = {unit.name: f"{unit.name}.m" for unit in space.units}
    for name in names.values():
        if name not in states:
            raise DataError(f"the model has a tensor '{name}', which is what the optimizer's state would be called")
    return names


def gradient_statistics(
    space: Space, data: Data, batches: int | None = None, work: Work | None = None
) -> GradientStatistics:
    """One backward pass over the data, or over `batches` batches of it. Raises DataError where there is less than two
    batches, of more than one sample each, to tell the mean of gradients from their spread."""
    work = work or Work()
    clock, session = Clock(work.seconds), GradientSession(space, work)
    try:
        samples = Samples(data, session.artifact.manifest, "samples")
        wanted = batches or samples.count // samples.step
        if samples.step > 1 and wanted < 2:
            raise DataError(
                f"{samples.count} samples are one batch of {samples.step}, and two are needed: give more samples, or "
                "import the model for a smaller batch"
            )
        identity = identity_of(space, session.recipe, {"data": data}, seed=work.seed)
        sums = _Sums(space, KeptArrays(work.kept("gradients.safetensors", identity)))
        return _gathered(session, samples, wanted, sums, work, clock)
    finally:
        session.close()


def _gathered(
    session: GradientSession, samples: Samples, wanted: int, sums: _Sums, work: Work, clock: Clock
) -> GradientStatistics:
    """Batches until there are as many as wanted, or the time is over. What a batch takes is known from those before."""
    least = 1 if samples.step == 1 else 2
    known, begun = sums.batches, clock.seconds
    for index, batch in enumerate(samples.batches(work.seed)):
        each = (clock.seconds - begun) / max(1, index - known)
        if index >= wanted or (index >= max(known, least) and clock.is_over(each)):
            break
        if index < known:
            continue
        work.progress("gradients", index, wanted)
        for unit, gradient in session.gradients(batch):
            sums.add(unit, gradient)
        sums.batches += 1
        sums.save()
    work.progress("gradients", wanted, wanted)
    sums.save(at_once=sums.batches > known)
    return GradientStatistics(sums.moments(), sums.batches, samples.step)


class _Sums:
    """Sums over the batches so far: those that are kept, and new ones."""

    def __init__(self, space: Space, kept: KeptArrays) -> None:
        self.space, self._kept, self.batches = space, kept, 0
        self.total = {unit.name: np.zeros(unit.shape, np.float32) for unit in space.units}
        sizes = {unit.name: 1 if unit.axis is None else unit.shape[unit.axis] for unit in space.units}
        self.squares = {name: np.zeros(size) for name, size in sizes.items()}
        self.scalings = {name: np.zeros(size) for name, size in sizes.items()}
        if found := kept.load(self._arrays()):
            self.batches = int(found[_BATCHES])
            for kind in _KINDS:
                getattr(self, kind).update({name: found[f"{kind}.{name}"] for name in sizes})

    def add(self, unit: Unit, gradient: Array) -> None:
        """One batch's gradient."""
        self.total[unit.name] += gradient
        self.squares[unit.name] += by_channel(gradient, gradient, unit.axis)
        self.scalings[unit.name] += by_channel(self.space.graph.data[unit.name], gradient, unit.axis) ** 2

    def moments(self) -> dict[str, Moments]:
        """Of the units by name."""
        found, count = {}, self.batches
        for unit in self.space.units:
            mean = self.total[unit.name] / np.float32(count)
            scaling = by_channel(self.space.graph.data[unit.name], mean, unit.axis)
            found[unit.name] = Moments(
                self.squares[unit.name] / count,
                by_channel(mean, mean, unit.axis),
                self.scalings[unit.name] / count,
                scaling**2,
                held_by_rank(mean, unit.ranks),
            )
        return found

    def save(self, at_once: bool = False) -> None:
        """Keep what there is, if it is time to."""
        self._kept.save(self._arrays, at_once)

    def _arrays(self) -> dict[str, Array]:
        found = {f"{kind}.{name}": array for kind in _KINDS for name, array in getattr(self, kind).items()}
        return {**found, _BATCHES: np.array(self.batches, np.int64)}


def by_channel(first: Array, second: Array, axis: int | None) -> Array:
    """The sum of the products of two arrays for each index along `axis`, f64 [channels]; over all of them where it is
    None, f64 [1]."""
    letters = "abcdefghijklmnop"[: first.ndim]
    kept = "" if axis is None else letters[axis]
    sums = np.einsum(f"{letters},{letters}->{kept}", first, second, dtype=np.float64)
    return np.asarray(sums).reshape(-1)


def held_by_rank(gradient: Array, ranks: Sequence[int]) -> tuple[float, ...]:
    """The part of a gradient's squared norm that its best approximation of each rank has: of its squared singular
    values, as a matrix of the first axis by all others, the part of the largest ones (Eckart and Young, 1936)."""
    if not ranks:
        return ()
    matrix = gradient.reshape(len(gradient), -1).astype(np.float64)
    small = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    squares = np.maximum(np.linalg.eigvalsh(small)[::-1], 0.0)
    total = float(squares.sum())
    return tuple(float(squares[:rank].sum()) / total if total else 0.0 for rank in ranks)
