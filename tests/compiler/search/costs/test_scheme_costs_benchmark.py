"""The benchmark of estimated costs plans each scheme once, whatever stops it."""

from __future__ import annotations

import os
import signal
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.scheme_costs.kept import Kept, OtherRowsError
from benchmarks.scheme_costs.planned import digest, planned
from pockengine.search import Choice, Cost, ExactCosts, random_choices
from pockengine.targets import get
from tests.compiler.search.models import perceptron, space_of

PI = get("raspberry-pi-4")
ABOUT = {"seed": 3}


class Asked(ExactCosts):
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(space_of(perceptron()), PI, 2)
        self.choices: list[Choice] = []

    def of(self, choice: Choice) -> Cost:
        """See ExactCosts."""
        self.choices.append(choice)
        return super().of(choice)


@pytest.fixture(scope="module")
def choices() -> list[Choice]:
    return list(islice(random_choices(space_of(perceptron()), 3), 4))


@pytest.fixture(scope="module")
def true(choices: list[Choice]) -> list[Cost]:
    costs = Asked()
    return [costs.of(choice) for choice in choices]


def _asked(path: Path, choices: list[Choice], true: list[Cost]) -> list[Choice]:
    """What had to be planned to know all."""
    costs = Asked()
    assert planned(Kept.of(path, ABOUT), choices, lambda: costs, 1) == true
    return costs.choices


def test_each_scheme_is_planned_once(tmp_path: Path, choices: list[Choice], true: list[Cost]) -> None:
    path = tmp_path / "new" / "kept.jsonl"
    assert _asked(path, choices[:3], true[:3]) == choices[:3]
    assert _asked(path, choices, true) == choices[3:]
    assert _asked(path, choices[:2], true[:2]) == []


def test_a_line_that_was_cut_is_planned_again(tmp_path: Path, choices: list[Choice], true: list[Cost]) -> None:
    path = tmp_path / "kept.jsonl"
    _asked(path, choices, true)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert _asked(path, choices, true) == choices[3:]
    assert path.read_bytes() == whole


def test_lines_that_ran_together_are_planned_again(tmp_path: Path, choices: list[Choice], true: list[Cost]) -> None:
    path = tmp_path / "kept.jsonl"
    _asked(path, choices, true)
    about, *lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([about, lines[0], lines[1][:12], *lines[2:]]))
    assert _asked(path, choices, true) == choices[1:3]


def test_a_file_that_was_only_begun_is_begun_again(tmp_path: Path, choices: list[Choice], true: list[Cost]) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_bytes(b'{"seed"')
    assert _asked(path, choices[:1], true[:1]) == choices[:1]


@pytest.mark.parametrize("text", [b'{"seed": 4}\n', b"something else\n"])
def test_other_rows_are_refused_and_left_alone(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_bytes(text)
    with pytest.raises(OtherRowsError, match="name another place"):
        Kept.of(path, ABOUT)
    assert path.read_bytes() == text


def test_several_processes_find_the_same(tmp_path: Path, choices: list[Choice], true: list[Cost]) -> None:
    kept = Kept.of(tmp_path / "kept.jsonl", ABOUT)
    assert planned(kept, choices, Asked, 3) == true
    assert len(kept.path.read_bytes().splitlines()) == 1 + len(choices)


def test_what_a_killed_process_did_not_plan_is_planned(tmp_path: Path, choices: list[Choice], true: list[Cost]) -> None:
    parent = os.getpid()

    class Mortal(Asked):
        def of(self, choice: Choice) -> Cost:
            if os.getpid() != parent and choice != choices[1]:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().of(choice)

    assert planned(Kept.of(tmp_path / "kept.jsonl", ABOUT), choices, Mortal, 2) == true


def test_choices_that_are_drawn_in_another_way_are_told_apart(choices: list[Choice]) -> None:
    space = space_of(perceptron())
    assert digest(space, choices) == digest(space_of(perceptron()), list(choices))
    assert digest(space, choices) != digest(space, choices[::-1])
