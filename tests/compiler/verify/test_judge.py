"""The judgement of two trainings: what passes as float32, what float64 has to decide, and what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine.ir import Array
from pockengine.verify import Change, Verdict, compare_changes, compare_losses

RNG = np.random.default_rng(0)
START = {name: RNG.standard_normal((8, 16)).astype(np.float32) for name in ("a", "b")}
STEP = {name: 0.01 * RNG.standard_normal((8, 16)) for name in START}
NOISE = RNG.standard_normal((3, 8, 16))


def trained(**factors: float) -> dict[str, Array]:
    """Each tensor after its step, times a factor."""
    return {name: (START[name] + factors.get(name, 1.0) * STEP[name]).astype(np.float32) for name in START}


def judged(ours: dict[str, Array], theirs: dict[str, Array], exact: dict[str, Array] | None = None) -> list[Change]:
    return compare_changes(START, ours, theirs, list(START), 1, None if exact is None else lambda: exact)


def test_changes_within_the_tolerance_are_the_same() -> None:
    found = judged(trained(a=1.01), trained())
    assert [change.verdict for change in found] == [Verdict.SAME, Verdict.SAME]
    assert found[0].error == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("factor", [0.0, 0.97, 1.03, -1.0])
def test_another_change_is_different_whatever_float64_says_of_the_other_program(factor: float) -> None:
    exact = {name: START[name] + STEP[name] for name in START}
    found = judged(trained(b=factor), trained(), exact)
    assert [change.agrees for change in found] == [True, False]
    assert not judged(trained(b=factor), trained())[1].agrees


def test_rounding_noise_is_right_in_both() -> None:
    """Both moved by noise of one size where float64 does not move: float32 alone cannot tell that from an error."""
    start = np.zeros((8, 16), np.float32)
    sides = [
        {"a": START["a"] + STEP["a"].astype(np.float32), "b": (1e-4 * noise).astype(np.float32)} for noise in NOISE
    ]
    exact = {"a": START["a"] + STEP["a"], "b": np.zeros((8, 16))}
    initial = {"a": START["a"], "b": start}
    (_, alone), (_, refereed) = (
        compare_changes(initial, sides[0], sides[1], ["a", "b"], 1, referee) for referee in (None, lambda: exact)
    )
    assert (alone.verdict, refereed.verdict) == (Verdict.DIFFERENT, Verdict.ROUNDING)
    assert refereed.our_distance == pytest.approx(1e-4 * np.linalg.norm(NOISE[0]), rel=1e-4)
    wrong = {**sides[0], "b": 10 * sides[0]["b"]}
    assert not compare_changes(initial, wrong, sides[1], ["a", "b"], 1, lambda: exact)[1].agrees


def test_what_cancels_to_less_than_the_others_rounding_is_no_difference() -> None:
    """PyTorch happens to give 0 where we give 1e-9: beside changes of 0.01 that is nothing."""
    initial = {**START, "b": np.zeros((8, 16), np.float32)}
    theirs = {**trained(), "b": initial["b"]}
    ours = {**theirs, "b": initial["b"] + np.float32(1e-9)}
    exact = {name: array.astype(np.float64) for name, array in theirs.items()}
    assert compare_changes(initial, ours, theirs, ["a", "b"], 1, lambda: exact)[1].verdict is Verdict.ROUNDING
    ours["b"] = initial["b"] + np.float32(1e-5)
    assert not compare_changes(initial, ours, theirs, ["a", "b"], 1, lambda: exact)[1].agrees


def test_nan_is_a_difference_unless_both_have_it() -> None:
    broken = trained()
    broken["a"][0, 0] = np.nan
    assert [change.agrees for change in judged(broken, trained())] == [False, True]
    assert [change.agrees for change in judged(trained(), broken)] == [False, True]
    assert [change.agrees for change in judged(broken, broken)] == [True, True]


def test_the_referee_is_not_asked_where_float32_decides() -> None:
    def asked() -> dict[str, Array]:
        raise AssertionError("nothing was in doubt")

    assert all(change.agrees for change in compare_changes(START, trained(), trained(), list(START), 1, asked))


def test_losses() -> None:
    assert compare_losses([1.0, 2.0], [1.00009, 2.0]) == [Verdict.SAME, Verdict.SAME]
    assert compare_losses([1.0, 2.0], [1.0, 2.0003]) == [Verdict.SAME, Verdict.DIFFERENT]
    assert compare_losses([float("nan")], [1.0]) == [Verdict.DIFFERENT]
    assert compare_losses([float("nan")], [float("nan")]) == [Verdict.SAME]
    # A loss of nearly nothing: PyTorch's float32 is as far from the truth as ours.
    assert compare_losses([1e-7], [-1e-7], lambda: [2e-8]) == [Verdict.ROUNDING]
    assert compare_losses([1e-6], [-1e-7], lambda: [2e-8]) == [Verdict.DIFFERENT]
