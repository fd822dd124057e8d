"""The front: nothing in it is beaten, and preferences take from it what they say."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine.search.choosing import KEPT, Chooser, Limits, Point, Preference, Spared, front, preferred, unbeaten
from pockengine.search.costs import Cost
from tests.compiler.search.choosing.problems import Chain, Shrinking, random_gains, space_of


def random_points(seed: int) -> list[Point]:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 6, (30, 3))
    return [
        Point((place,), float(gain), Cost(int(memory), float(ms))) for place, (gain, memory, ms) in enumerate(numbers)
    ]


def beats(one: Point, other: Point) -> bool:
    as_good = (
        one.gain >= other.gain
        and one.cost.peak_bytes <= other.cost.peak_bytes
        and one.cost.step_ms <= other.cost.step_ms
    )
    return as_good and (one.gain, one.cost) != (other.gain, other.cost)


@pytest.mark.parametrize("seed", range(10))
def test_nothing_beats_what_is_left_and_all_else_is_beaten(seed: int) -> None:
    points = random_points(seed)
    left = unbeaten(points)
    assert not any(beats(other, one) for one in left for other in points)
    gone = [point for point in points if point not in left]
    assert all(
        any(beats(other, one) or (other.gain, other.cost) == (one.gain, one.cost) for other in left) for one in gone
    )
    assert len({(one.gain, one.cost) for one in left}) == len(left)


POINTS = [
    Point((1,), 96.0, Cost(500, 90.0)),
    Point((2,), 100.0, Cost(1000, 100.0)),
    Point((3,), 97.0, Cost(900, 40.0)),
    Point((4,), 60.0, Cost(100, 10.0)),
    Point((5,), 80.0, Cost(150, 15.0)),
]


@pytest.mark.parametrize(
    ("preference", "choice"),
    [(Preference.ACCURACY, (2,)), (Preference.MEMORY, (1,)), (Preference.TIME, (3,)), (Preference.BALANCED, (5,))],
)
def test_preferences(preference: Preference, choice: tuple[int, ...]) -> None:
    assert preferred(POINTS, preference).choice == choice
    assert preferred([POINTS[0]], preference) == POINTS[0]
    assert preferred(POINTS, Preference.MEMORY).gain >= KEPT * 100


def test_the_front_of_a_network_keeps_the_limits_and_grows() -> None:
    space, costs = space_of(5), Chain(5, 4)
    chooser = Chooser(space, random_gains(space, 4), costs, costs)
    limits = Limits((costs.of(space.full).peak_bytes + chooser.least().peak_bytes) // 2)
    points = front(chooser, limits)
    assert len(points) >= 4 and unbeaten(points) == points
    assert all(limits.keeps(point.cost) and point.cost == costs.of(point.choice) for point in points)
    best = max(points, key=lambda point: point.gain)
    assert best.gain == pytest.approx(chooser.choose(limits).gain)


def test_what_is_computed_twice_joins_the_front() -> None:
    space, costs = space_of(6), Shrinking(6, 3)
    gains = random_gains(space, 3)
    once, twice = (Chooser(space, gains, costs, planned) for planned in (Chain(6, 3), costs))
    limits = Limits((costs.of(space.full).peak_bytes + once.least().peak_bytes) // 2)
    points, plain = front(twice, limits), front(once, limits)
    more = [point for point in points if point.memory is not None]
    assert more and unbeaten(points) == points and {point.memory for point in plain} == {None}
    for point in more:
        assert point.memory is not None and Spared(point.cost, point.memory) == costs.within(point.choice, point.memory)
        assert costs.of(point.choice).peak_bytes > point.memory >= point.cost.peak_bytes
        assert twice.choose(limits.within(point.room)).gain >= point.gain
    assert max(point.gain for point in points) == pytest.approx(twice.choose(limits).gain)
    least = preferred(points, Preference.MEMORY)
    assert all(point.gain < least.gain for point in plain if point.cost.peak_bytes <= least.cost.peak_bytes)
