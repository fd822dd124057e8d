"""A whole training in this process: what the executable's `train` does, step for step, on arrays in memory.

docs/reference/binary.md says how it goes through the data and when it stops. It writes no checkpoints: what has to
survive a kill is the executable's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pockengine.artifact.session import Batch, Session
from pockengine.codegen.samples import Order, Stream, held_out
from pockengine.errors import DataError, DivergedError
from pockengine.ir import Array, DType


@dataclass(frozen=True)
class Course:
    """How long to train, in which order, and what to watch meanwhile.

    It ends after `steps` or `epochs`, whichever is first, or once `patience` evaluations one after the other did not
    have a lower loss than the best one; with `patience` the session has the best weights in the end. Evaluated is every
    `eval_every` steps, by default after each epoch, and at the end: on `eval_data`, or on `eval_share` (between 0 and
    1) of each class of the samples, which are drawn by `eval_seed` and not trained on."""

    steps: int | None = None
    epochs: int | None = None
    seed: int = 0
    shuffle: bool = True
    eval_data: Batch | None = None
    eval_share: float | None = None
    eval_seed: int = 0
    eval_every: int | None = None
    patience: int | None = None


@dataclass(frozen=True)
class Validation:
    """An evaluation during training. Steps and epochs count from 1; `best`: no earlier loss was as low."""

    step: int
    epoch: int
    loss: float
    accuracy: float | None
    best: bool


@dataclass(frozen=True)
class Trained:
    """What a training told: the loss of each step, its evaluations, the best one (None: there is none), what ended it
    (steps, epochs or patience), and the numbers of the samples that were held out."""

    losses: tuple[float, ...]
    evaluations: tuple[Validation, ...]
    best: Validation | None
    ended: str
    held_out: tuple[int, ...] = ()


def train(session: Session, data: Batch, course: Course, progress: Callable[[str], None] | None = None) -> Trained:
    """Trains an open session on {input name: array with the samples first}; `progress` gets a line for each evaluation.

    Raises DataError for data or a course that cannot be, DivergedError when the loss is no number any more."""
    _check(course)
    samples = session.samples(data)
    chosen = np.zeros(samples, bool)
    if course.eval_share is not None:
        chosen = held_out(samples, course.eval_share, course.eval_seed, classes_of(session, data))
    numbers = np.flatnonzero(~chosen)
    watched = course.eval_data if course.eval_share is None else _taken(session, data, np.flatnonzero(chosen))
    recipe = session.manifest.recipe
    order = Order(len(numbers), course.seed if course.shuffle else None)
    stream = Stream(order, session.step_samples, str(recipe.get("last_batch", "wrap")))
    if not stream.possible:
        raise DataError(
            f"there are {len(numbers)} samples to train on, fewer than the {session.step_samples} of one step; compile "
            "with a smaller batch or last_batch: wrap"
        )
    if wanted := int(recipe.get("norm_batches", 0)):
        seen = range(min(wanted, max(1, len(numbers) // session.batch)) * session.batch)
        session.estimate_norms(_taken(session, data, numbers[[order.at(position) for position in seen]]))
    with TemporaryDirectory() as folder:
        best = Path(folder) / "best.safetensors" if course.patience else None
        running = _Running(session, course, stream, watched, best, progress or (lambda line: None))
        ended = running.all_steps(lambda step: _batch(session, data, numbers, stream, step))
    return Trained(
        tuple(running.losses), tuple(running.evaluations), running.best, ended, tuple(np.flatnonzero(chosen).tolist())
    )


@dataclass
class _Running:
    """A training on its way; the weights of the best evaluation lie in the file `kept`."""

    session: Session
    course: Course
    stream: Stream
    watched: Batch | None
    kept: Path | None
    progress: Callable[[str], None]
    losses: list[float] = field(default_factory=list)
    evaluations: list[Validation] = field(default_factory=list)
    best: Validation | None = None

    def all_steps(self, batch_of: Callable[[int], Mapping[str, Array]]) -> str:
        """What ended the training."""
        course = self.course
        steps = min(n for n in (course.steps, course.epochs and self.stream.steps(course.epochs)) if n)
        ended = "steps" if steps == course.steps else "epochs"
        for step in range(steps):
            self._step(step, batch_of(step))
            if self.watched is not None and (self._is_due(step) or step + 1 == steps):
                self._validate(step)
                if self._waited() and step + 1 < steps:
                    ended = "patience"
                    break
        if self.kept is not None and self.best is not None and self.best.step < len(self.losses):
            self.session.load(self.kept)
        return ended

    def _step(self, step: int, batch: Mapping[str, Array]) -> None:
        loss = self.session.step(batch)
        if not math.isfinite(loss):
            raise DivergedError(f"training diverged at step {step + 1}: lower the learning rate")
        self.losses.append(loss)

    def _is_due(self, step: int) -> bool:
        if self.course.eval_every:
            return (step + 1) % self.course.eval_every == 0
        return self.stream.epoch(step + 1) > self.stream.epoch(step)

    def _validate(self, step: int) -> None:
        assert self.watched is not None
        found = self.session.evaluate(self.watched)
        better = math.isfinite(found.loss) and (self.best is None or found.loss < self.best.loss)
        one = Validation(step + 1, self.stream.epoch(step) + 1, found.loss, found.accuracy, better)
        self.evaluations.append(one)
        self.progress(f"step {one.step}: loss {one.loss:.4g}{' (best)' if better else ''}")
        if better:
            self.best = one
            if self.kept is not None:
                self.session.save(self.kept)

    def _waited(self) -> bool:
        """Whether the loss has not improved for as many evaluations as patience allows."""
        best = -1 if self.best is None else self.evaluations.index(self.best)
        return bool(self.course.patience) and len(self.evaluations) - 1 - best >= (self.course.patience or 0)


def _check(course: Course) -> None:
    if not course.steps and not course.epochs:
        raise DataError("a training needs steps or epochs")
    for name in ("steps", "epochs", "eval_every", "patience"):
        value = getattr(course, name)
        if value is not None and value < 1:
            raise DataError(f"{name} is a whole number of at least 1, not {value}")
    if course.eval_data is not None and course.eval_share is not None:
        raise DataError("eval_data and eval_share exclude each other")
    if course.eval_data is None and course.eval_share is None and (course.eval_every or course.patience):
        name = "patience" if course.patience else "eval_every"
        raise DataError(f"{name} needs eval_data or eval_share")


def classes_of(session: Session, data: Batch) -> Array | None:
    """The first target with one whole number for each sample; what is negative, so ignored, comes after all others."""
    for port in session.manifest.inputs:
        if port.target and port.shape == (session.batch,) and not DType(port.dtype).is_float:
            labels = np.asarray(data[port.name]).astype(np.int64)
            return np.where(labels < 0, np.iinfo(np.int64).max, labels)
    return None


def _batch(session: Session, data: Batch, numbers: Array, stream: Stream, step: int) -> dict[str, Array]:
    return _taken(session, data, numbers[[stream.order.at(position) for position in stream.positions(step)]])


def _taken(session: Session, data: Batch, numbers: Array) -> dict[str, Array]:
    """The samples of these numbers."""
    ports = {port.name: port for port in session.manifest.inputs}
    rows = {name: session.rows(ports[name]) for name in data}
    return {
        name: np.asarray(array)[(numbers[:, None] * rows[name] + np.arange(rows[name])).reshape(-1)]
        for name, array in data.items()
    }
