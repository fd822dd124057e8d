"""What the search and the published one choose from the same contributions, costs and limits, and how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.tasks.models import Model
from benchmarks.tasks.task import Task
from pockengine.search.contributions import Contributions

from .campaign import SHARES
from .running import Bench, Means
from .searching import Picked, Searching, search_digest
from .store import Store, digest_of

KIND = "choosing"
Find = Callable[[Searching, Contributions, int], Picked | None]
"""One of them: from contributions, and bytes that are allowed."""


@dataclass(frozen=True)
class Side:
    """What one of them came to: a gain, None where it found nothing; a bound of the gain; seconds."""

    gain: float | None
    bound: float | None
    seconds: float


def measure(model: Model, task: Task, store: Store, folder: Path) -> None:
    """Both at each limit, one after the other, neither with plans that the other made."""
    bench = Bench(model, Means(store, folder))
    contributions = bench.searching.contributions(task, "default")
    for share in SHARES:
        limit = bench.costs.limit(share)
        ours = _side(bench, contributions, limit, Searching.pick)
        theirs = _side(bench, contributions, limit, Searching.evolved)
        store.add(
            digest_of(KIND, model.key, task.name, share),
            {
                "kind": KIND,
                "model": model.key,
                "task": task.name,
                "share": share,
                "ours": asdict(ours),
                "theirs": asdict(theirs),
                "search": search_digest(),
            },
        )


def _side(bench: Bench, contributions: Contributions, limit: int, find: Find) -> Side:
    searching = Searching(bench.model, bench.costs, bench.weights, bench.means.folder)
    assert searching.estimates is not None  # what both share counts for neither
    began = time.monotonic()
    picked = find(searching, contributions, limit)
    seconds = time.monotonic() - began
    return Side(None, None, seconds) if picked is None else Side(picked.gain, picked.bound, seconds)
