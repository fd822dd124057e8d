"""How long a step of a scheme takes, measured beside one of full: what the compiler expects is too much for small
networks in micro-batches, whose weights stay in caches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.tasks.models import Model
from benchmarks.tasks.task import Split, Task
from pockengine.artifact.session import Session

from .costs import THREADS
from .running import Bench, Means, Scheme
from .store import Store, digest_of

KIND = "step time"
ROUNDS, STEPS = 9, 8
"""Turns of both, and steps of each turn, after one turn that does not count."""


def measure(model: Model, task: Task, schemes: Sequence[Scheme], store: Store, means: Means) -> None:
    """Of each scheme that was chosen, in turns with full."""
    bench = Bench(model, means)
    full = bench.artifact(model.recipe("full")).load(threads=THREADS)
    samples = model.samples_of(task.data(0).train)
    for scheme in schemes:
        if (recipe := bench.recipe(scheme, task)) is None:
            continue
        with bench.artifact(recipe).load(threads=THREADS) as other:
            ratio = _ratio(other, full, samples)
        about = {"model": model.key, "task": task.name, "method": scheme.method, "share": scheme.share}
        key = digest_of(KIND, bench.weights_digest, *map(str, about.values()))
        store.add(key, {"kind": KIND, **about, "weights": bench.weights_digest, "ratio": ratio})
    full.close()


def _ratio(one: Session, other: Session, samples: Split) -> float:
    """Of the medians of what turns of steps took."""
    took: list[tuple[Session, list[float]]] = [(one, []), (other, [])]
    batch = samples.batch(np.arange(other.batch))
    for _ in range(ROUNDS + 1):
        for session, times in took:
            began = time.perf_counter()
            for _ in range(STEPS):
                session.step(batch)
            times.append(time.perf_counter() - began)
    first, second = (statistics.median(times[1:]) for _, times in took)
    return first / second
