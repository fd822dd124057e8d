"""The step of a round, some numbers at a time, in float64 and in an order that is always the same: the same round, done
again, makes the same bits."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pock_server.aggregation.admission import Candidate, chunks
from pock_server.aggregation.files import Weights, Writer
from pock_server.aggregation.task import Accepted, Options, Rule, Task
from pock_server.weights.tensors import Tensor

Vector = NDArray[np.float64]
Member = tuple[Candidate, Accepted]
BETA_1, BETA_2, TAU = 0.9, 0.99, 1e-3
"""Of FedAdam (Reddi et al. 2021, section 5); the second moment begins as TAU squared."""


def take_step(
    task: Task, folder: Path, current: Weights, members: Sequence[Member], weights: Path, moments: Path
) -> float:
    """Write the weights after the round and, of FedAdam, the moments; the Euclidean length of the step."""
    adam = _Adam(task, folder, moments) if task.options.rule is Rule.FEDADAM else None
    generator = _generator(task.options.noise_key)
    written, total = Writer(weights, task.trained), 0.0
    for name, begin, count in chunks(task.trained):
        before = current.read(name, begin, count).astype(np.float64)
        step = _direction(task.options, name, begin, before, members)
        if task.options.noise is not None:
            step += generator.normal(0.0, _deviation(task.options, len(members)), count)
        if adam is not None:
            step = adam.step(step, name, begin)
        step *= task.options.server_learning_rate
        written.write(before + step)
        total += float(np.dot(step, step))
    written.close()
    if adam is not None:
        adam.close()
    return math.sqrt(total)


def _generator(key: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(key.encode()).digest(), "big")))


def _deviation(options: Options, members: int) -> float:
    """Of the noise on the mean: that on the sum is `noise` clip norms, as one device moves the sum by one at most."""
    assert options.noise is not None and options.clip_norm is not None
    return options.noise * options.clip_norm / members


def _direction(options: Options, name: str, begin: int, before: Vector, members: Sequence[Member]) -> Vector:
    """What the updates of the members, each clipped, say together: [len(before)]."""
    if options.rule is Rule.MEDIAN:
        updates = np.stack([_update(options, name, begin, before, member) for member in members])
        return np.asarray(np.median(updates, axis=0), np.float64)
    mean = np.zeros(len(before))
    for member in members:
        mean += member[1].part * _update(options, name, begin, before, member)
    return mean


def _update(options: Options, name: str, begin: int, before: Vector, member: Member) -> Vector:
    candidate, accepted = member
    update = candidate.weights.read(name, begin, len(before)) - before
    if accepted.clipped and options.clip_norm is not None:
        update *= options.clip_norm / accepted.norm
    return update


class _Adam:
    """FedAdam: both moments of a number stand side by side in the file, [numbers, 2] for each tensor."""

    def __init__(self, task: Task, folder: Path, moments: Path) -> None:
        self._before = None if task.moments is None else Weights(folder / task.moments)
        self._after = Writer(moments, _moments(task.trained))

    def step(self, gradient: Vector, name: str, begin: int) -> Vector:
        """The step along the mean update, before the server's learning rate."""
        count = len(gradient)
        first, second = np.zeros(count), np.full(count, TAU * TAU)
        if self._before is not None:
            first, second = self._before.read(name, 2 * begin, 2 * count).astype(np.float64).reshape(count, 2).T
        first = BETA_1 * first + (1 - BETA_1) * gradient
        second = BETA_2 * second + (1 - BETA_2) * gradient * gradient
        self._after.write(np.stack([first, second], axis=1).ravel())
        return np.asarray(first / (np.sqrt(second) + TAU), np.float64)

    def close(self) -> None:
        self._after.close()


def _moments(trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: Tensor("F32", (math.prod(tensor.shape), 2)) for name, tensor in trained.items()}
