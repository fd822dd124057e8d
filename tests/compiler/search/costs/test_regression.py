"""What segments take is told from what was observed: in company that was never seen, and within what there was."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np
import pytest

from pockengine.compile.resolved import resolve
from pockengine.search import Choice, random_choices
from pockengine.search.costs import regression
from pockengine.search.costs.exact import request_of
from pockengine.search.costs.regression import Regression, Sample
from pockengine.search.costs.segments import Bools, Floats, Segments
from pockengine.targets import get
from tests.compiler.search.models import bottlenecks, space_of


@pytest.fixture(scope="module")
def segments() -> Segments:
    space = space_of(bottlenecks())
    return Segments.cut(space, resolve(request_of(space, space.full, get("raspberry-pi-4"), 2)).model)


def _drawn(segments: Segments, seed: int, count: int) -> list[Choice]:
    return list(islice(random_choices(segments.space, seed), count))


def _features(segments: Segments, choices: Iterable[Choice]) -> Floats:
    return np.stack([segments.features(segments.parts_of(choice)) for choice in choices])


def _truth(segments: Segments, choices: Iterable[Choice]) -> Floats:
    """Figures that add up: the share of a segment's weights that is trained, twice, and the part of those beside it to
    which a gradient comes. [choices, segments, 1], from 0 to 3."""
    found = []
    for choice in choices:
        parts = segments.parts_of(choice)
        weights = [[unit for unit in units if segments.space.units[unit].is_weight] for units in segments.units]
        gradients = segments.gradients(parts)
        own = [2 * parts[0, units].mean() if units else 0.0 for units in weights]
        beside = [np.mean(gradients[list(others)]) for others in segments.beside]
        found.append(np.add(own, beside)[:, None])
    return np.array(found)


def _fitted(segments: Segments, choices: list[Choice], figures: Floats, counts: Bools | None = None) -> Regression:
    counts = np.ones(figures.shape[:2], np.bool_) if counts is None else counts
    sample = Sample(figures, counts, np.ones(figures.shape[1:]), np.ones(figures.shape[2], np.bool_))
    return Regression.fit(segments, _features(segments, choices), [sample])


def _told(segments: Segments, fitted: Regression, choices: Iterable[Choice]) -> Floats:
    return np.stack([fitted.of(one)[0] for one in _features(segments, choices)])


def test_what_adds_up_is_told_in_company_that_was_never_seen(segments: Segments) -> None:
    known, others = _drawn(segments, 1, 40), _drawn(segments, 2, 40)
    fitted = _fitted(segments, known, _truth(segments, known))
    truth, usual = _truth(segments, others), _truth(segments, known).mean(axis=0)
    assert np.abs(_told(segments, fitted, others) - truth).mean() < np.abs(usual - truth).mean() / 3


def test_what_was_observed_is_told(segments: Segments) -> None:
    known = _drawn(segments, 3, 30)
    truth = _truth(segments, known)
    assert np.abs(_told(segments, _fitted(segments, known, truth), known) - truth).max() < 0.05


def test_nothing_is_told_beyond_what_a_kind_was_seen_to_take(segments: Segments) -> None:
    known, others = _drawn(segments, 4, 40), _drawn(segments, 5, 20)
    truth = _truth(segments, known) + np.asarray(segments.kinds)[:, None]
    told = _told(segments, _fitted(segments, known, truth), others)
    for kind in set(segments.kinds):
        own = np.asarray(segments.kinds) == kind
        assert told[:, own].min() >= truth[:, own].min()
        assert told[:, own].max() <= truth[:, own].max()


def test_what_does_not_count_teaches_nothing(segments: Segments) -> None:
    known, others = _drawn(segments, 6, 20), _drawn(segments, 7, 5)
    truth = _truth(segments, known)
    counts = np.ones(truth.shape[:2], np.bool_)
    counts[::2] = False
    spoilt = truth.copy()
    spoilt[::2] = 1e6
    told = [_told(segments, _fitted(segments, known, figures, counts), others) for figures in (truth, spoilt)]
    np.testing.assert_array_equal(told[0], told[1])
    nothing = _fitted(segments, known, spoilt, np.zeros_like(counts))
    assert not _told(segments, nothing, others).any()


def test_the_latest_observations_are_learned_from_and_no_more_than_so_many(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "MOST", 12)
    known = _drawn(segments, 8, 30)
    truth = _truth(segments, known)
    spoilt = truth.copy()
    spoilt[:10] = 1e6
    fitted = _fitted(segments, known, spoilt)
    assert max(len(one.points.owners) for one in fitted.classes) <= 12
    assert _told(segments, fitted, known).max() <= truth.max()


def test_a_segment_sees_itself_and_those_beside_it(segments: Segments) -> None:
    space = segments.space
    own = segments.of["3.expand.0.weight"]
    place = space.index["3.expand.0.weight"]
    less = (*space.full[:place], 1, *space.full[place + 1 :])
    all_, some = _features(segments, [space.full, less])
    near = [number for number in range(len(segments)) if number == own or own in segments.beside[number]]
    assert list(np.flatnonzero((all_ != some).any(axis=1))) == near


def test_segments_of_a_class_see_alike(segments: Segments) -> None:
    parts: dict[int, tuple[slice, ...]] = {}
    for kind, own in zip(segments.classes, segments.parts, strict=True):
        assert parts.setdefault(kind, own) == own
    assert len(parts) < len(segments)


def test_what_was_asked_before_makes_no_difference(segments: Segments) -> None:
    known, others = _drawn(segments, 1, 20), _drawn(segments, 5, 12)
    figures = _truth(segments, known)
    one, full = _fitted(segments, known, figures), segments.space.full
    near = [(*full[:unit], 0, *full[unit + 1 :]) for unit in range(len(full))]
    asked = [*others, *near, *others[::-1], full, full]
    fresh = [_told(segments, _fitted(segments, known, figures), [choice])[0] for choice in asked]
    np.testing.assert_allclose(_told(segments, one, asked), np.stack(fresh), rtol=1e-9, atol=1e-12)
