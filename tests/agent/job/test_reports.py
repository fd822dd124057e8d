"""The numbers of a report: whether times are stable, their summary, what is left out of a long one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pock_agent.job.report import MOST_SAMPLES, summary, thinned
from pock_agent.job.stability import judge


def test_steady_times_are_stable_and_wild_ones_are_not() -> None:
    source = random.Random(1)
    assert judge([10 + source.gauss(0, 0.1) for _ in range(100)], 0.05).stable
    assert not judge([source.choice([5.0, 15.0]) for _ in range(100)], 0.05).stable
    assert not judge([10.0] * 5, 0.05).stable


def test_the_interval_of_the_median_covers_it_as_often_as_it_says() -> None:
    """95 % of samples of a skewed distribution give an interval around the true median."""
    source = random.Random(2)
    true_median = 0.6931471805599453
    covered = 0
    for _ in range(400):
        samples = [source.expovariate(1.0) for _ in range(101)]
        verdict = judge(samples, 0.05)
        assert verdict.relative_interval is not None
        middle = sorted(samples)[50]
        covered += abs(middle - true_median) <= verdict.relative_interval * middle
    assert covered >= 0.93 * 400


@settings(max_examples=50)
@given(st.lists(st.floats(0.1, 1e6), min_size=2, max_size=60))
def test_step_times_are_summed_up_as_numpy_does(samples: list[float]) -> None:
    found = summary(samples)
    expected = np.quantile(samples[1:], [0.5, 0.1, 0.9])
    assert np.allclose([found["median"], found["p10"], found["p90"]], expected)
    assert found["samples"] == samples


@pytest.mark.parametrize("steps", [1, MOST_SAMPLES, MOST_SAMPLES + 1, 3 * MOST_SAMPLES, 130_007])
def test_the_report_of_a_long_training_keeps_evenly_spaced_steps_and_the_last(steps: int) -> None:
    report = {"steps": steps, "loss": list(range(steps)), "step_ms": {"median": 1.0, "samples": list(range(steps))}}
    kept = thinned(report)
    assert len(kept["loss"]) <= MOST_SAMPLES and kept["loss"][-1] == steps - 1
    assert kept["step_ms"]["samples"] == kept["loss"] and kept["step_ms"]["median"] == 1.0
    assert {b - a for a, b in zip(kept["loss"], kept["loss"][1:], strict=False)} <= {kept.get("every", 1)}
    assert kept is report or len(kept["loss"]) >= MOST_SAMPLES / 2
