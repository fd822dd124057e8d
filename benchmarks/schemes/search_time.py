"""How long the whole search takes for a model of usual size."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.scheme_costs.__main__ import BATCH, MODELS, graph_of, space_of
from pockengine.search import ExactCosts
from pockengine.search.choosing import Limits
from pockengine.search.job import SearchRequest, run
from pockengine.targets import get

from .searching import search_digest
from .store import Result, Store, digest_of

MODEL = "mobilenetv2"
SAMPLES = 256
SHARE = 1 / 3
"""Of the memory that training everything takes."""


def measure(store: Store, target: str = "raspberry-pi-4") -> Result:
    """The seconds of each stage of a search for MobileNetV2 at 96 x 96, which are kept. Random samples: what they show
    does not change how long it takes."""
    family = MODELS[MODEL]
    space = space_of(family)
    chance = np.random.default_rng(0)
    batches = [family.feed(batch=BATCH) for _ in range(SAMPLES // BATCH)]
    data = {name: np.concatenate([one[name] for one in batches]) for name in batches[0]}
    data[family.input_name] = chance.standard_normal(data[family.input_name].shape, np.float32)
    full = ExactCosts(space, get(target)).of(space.full).peak_bytes
    limits = Limits(round(SHARE * full))
    request = SearchRequest(space.graph, space.base, data, get(target), limits, at_batch=partial(graph_of, family))
    found = run(request)
    return store.add(
        digest_of("search time", MODEL, target),
        {
            "kind": "search time",
            "model": f"{family.title}, {SAMPLES} samples, for {target}",
            "seconds": dict(found.seconds),
            "gap": found.chosen.gap,
            "micro_batches": found.chosen.micro_batches,
            "search": search_digest(),
        },
    )
