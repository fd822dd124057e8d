"""Which contributions count. A device may send anything: files that are none, other shapes, numbers that are none or
absurd, a number of samples that would make it count for all."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pock_server.aggregation.files import Weights
from pock_server.aggregation.task import Accepted, Contribution, Rejected, Task
from pock_server.weights.restoring import is_delta, restore
from pock_server.weights.tensors import MalformedWeights, Tensor

CHUNK = 1 << 18
"""Numbers of a tensor that are in memory at once."""
_MOST_SAMPLES = 10.0
"""In medians of the round's samples: more do not count."""
_ENOUGH = 3
"""From so many on, a median says what is usual."""
_MIB = 1 << 20


@dataclass(frozen=True)
class Candidate:
    """A contribution whose file can be read, and the length of its update."""

    contribution: Contribution
    weights: Weights
    norm: float


class Refused(Exception):
    """Why a contribution does not count."""


def admit(task: Task, folder: Path, current: Weights) -> tuple[list[tuple[Candidate, Accepted]], list[Rejected]]:
    """Those that count, with their parts of the step, and those that do not; in the order of the task."""
    candidates: list[Candidate] = []
    refused: dict[str, str] = {}
    for contribution in task.contributions:
        try:
            weights = _opened(task, folder, contribution)
            candidates.append(Candidate(contribution, weights, _norm(task, weights, current)))
        except (Refused, MalformedWeights) as error:
            refused[contribution.run_id] = str(error)
    for candidate in _too_long(task, candidates):
        usual = statistics.median(one.norm for one in candidates)
        reason = f"the update is {candidate.norm / usual:.3g} times as long as the round's median"
        refused[candidate.contribution.run_id] = reason
    kept = [one for one in candidates if one.contribution.run_id not in refused]
    accepted = [_accepted(task, one, share) for one, share in zip(kept, _shares(task, kept), strict=True)]
    order = (one.run_id for one in task.contributions if one.run_id in refused)
    return list(zip(kept, accepted, strict=True)), [Rejected(run_id, refused[run_id]) for run_id in order]


def chunks(tensors: dict[str, Tensor]) -> Iterator[tuple[str, int, int]]:
    """All numbers of the tensors, in order: name, first, how many."""
    for name, tensor in tensors.items():
        total = math.prod(tensor.shape)
        for begin in range(0, total, CHUNK):
            yield name, begin, min(CHUNK, total - begin)


def _opened(task: Task, folder: Path, contribution: Contribution) -> Weights:
    path = folder / contribution.path
    if not is_delta(path):  # of an agent of before
        weights = Weights(path)
        missing = [name for name in task.trained if weights.form(name) is None]
        if missing:
            raise Refused(f"tensor {missing[0]!r} is missing")
    else:
        restored = path.with_suffix(".restored")
        limit = sum(tensor.nbytes for tensor in task.trained.values()) + 64 * _MIB
        restore(folder / task.base, task.base_digest, path, restored, everything=False, limit=limit)
        others = [name for name in Weights(restored).names() if name not in task.trained]
        if others:
            raise Refused(f"tensor {others[0]!r:.80} is not one that this build trains")
        weights = Weights(restored, folder / task.base)
    for name, tensor in task.trained.items():
        form = weights.form(name)
        if form is None or not tensor.same_form(form):
            raise Refused(f"tensor {name!r} has another shape or type than this build trains")
    return weights


def _norm(task: Task, weights: Weights, current: Weights) -> float:
    """The Euclidean length of an update. Raises Refused where it is not finite."""
    total = 0.0
    for name, begin, count in chunks(task.trained):
        sent = weights.read(name, begin, count)
        if not np.isfinite(sent).all():
            raise Refused(f"tensor {name!r} has numbers that are not finite")
        update = sent.astype(np.float64) - current.read(name, begin, count)
        total += float(np.dot(update, update))
    return math.sqrt(total)


def _too_long(task: Task, candidates: list[Candidate]) -> list[Candidate]:
    """Those far beyond what is usual in the round. With noise this is not asked: what one device may do is bounded by
    the clipping then, and who counts must not depend on the others."""
    bound = task.options.norm_bound
    if bound is None or task.options.noise is not None or len(candidates) < _ENOUGH:
        return []
    usual = statistics.median(one.norm for one in candidates)
    return [one for one in candidates if one.norm > bound * usual > 0]


def _shares(task: Task, kept: list[Candidate]) -> list[float]:
    """Each one's part of the mean; together 1."""
    if task.options.equal:
        return [1 / len(kept) for _ in kept]
    samples = [one.contribution.samples for one in kept]
    most = _MOST_SAMPLES * statistics.median(samples) if samples else 0
    counted = [min(one, most) for one in samples]
    return [one / math.fsum(counted) for one in counted]


def _accepted(task: Task, candidate: Candidate, share: float) -> Accepted:
    clip = task.options.clip_norm
    clipped = clip is not None and candidate.norm > clip
    return Accepted(candidate.contribution.run_id, candidate.norm, clipped, share)
