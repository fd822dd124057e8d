"""The predicted peak of some schemes is what their programs measure, and its parts sum to it."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from benchmarks.scheme_costs.estimates import PARTS, figures_of, measured
from benchmarks.workloads import Feed
from pockengine.search import Space, random_choices
from tests.compiler.search import models

TINY = 0.06
"""Where all of a process is about 1 MB: programs of schemes differ, what is told of them does not. Models of usual size
are held to 3 % by tests/compiler/models/test_figures.py."""


def _feed(space: Space) -> Feed:
    chance, feed = np.random.default_rng(0), Feed()
    for value in space.graph.inputs:
        numbers = chance.standard_normal(value.type.shape, np.float32)
        feed[value.name] = numbers if value.type.dtype.is_float else np.zeros(value.type.shape, int)
    return {**feed, "labels": np.zeros(models.BATCH, int)}


@pytest.mark.parametrize("name", ["perceptron", "transformer"])
def test_tiny_models(name: str) -> None:
    space = models.space_of(getattr(models, name)())
    rows = [measured(space, choice, _feed(space), 2) for choice in (space.full, *islice(random_choices(space, 3), 1))]
    assert figures_of(rows)["largest"] <= TINY


def test_parts_that_do_not_sum_are_refused() -> None:
    row = {**dict.fromkeys(PARTS, 1), "predicted_bytes": len(PARTS) + 1, "measured_bytes": 6}
    with pytest.raises(ValueError, match="do not sum"):
        figures_of([{"model": "one", "scheme": "0", **row}])
