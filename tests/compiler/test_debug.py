"""`POCK_DEBUG`: each level shows what it says, and all that the levels below it show; without it nothing is shown."""

from __future__ import annotations

import re

import pytest
import torch

import pockengine as pock
from pockengine.debug import VARIABLE, Level, shows, timed
from pockengine.errors import PockError
from pockengine.ir import Graph
from pockengine.progress import quiet
from pockengine.recipe import Recipe

SHOWN = {
    Level.STAGES: r"^plan: \d+\.\d+ s$",
    Level.SIZES: r"^fuse: (\d+) -> (?!\1)\d+ nodes, \d+ bytes of values, \d+\.\d+ s$",
    Level.GRAPHS: r'^graph "Linear"$',
    Level.SOURCES: r"^plan train: \d+ steps, \d+ bytes of arena$",
}


@pytest.fixture(scope="module")
def graph() -> Graph:
    return pock.from_torch(torch.nn.Linear(3, 2), (torch.zeros(4, 3),))


@pytest.mark.parametrize("level", Level)
def test_a_level_shows_its_own_and_all_below(
    level: Level, graph: Graph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(level.value))
    pock.compile(graph, Recipe("mse"))
    out, err = capsys.readouterr()
    assert out == ""
    assert {one for one, shown in SHOWN.items() if re.search(shown, err, re.MULTILINE)} == {
        one for one in SHOWN if one <= level
    }
    if level is Level.SOURCES:
        symbol = re.search(r"^step 0 forward '[^']*': (\w+) -> %\S+ in arena at \d+$", err, re.MULTILINE)
        assert symbol is not None and f"\nkernel {symbol[1]}\n" in err and f"void {symbol[1]}(" in err
        assert re.search(r"^slot \d+\+\d+ from step \d+ to \d+: activation ", err, re.MULTILINE)


def test_without_a_level_the_callback_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert timed(quiet) is quiet and not shows(Level.STAGES)


@pytest.mark.parametrize("said", ["5", "-1", "all"])
def test_what_is_no_level_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, said)
    with pytest.raises(PockError, match=f"POCK_DEBUG must be a level from 1 to 4, or 0 for nothing, not '{said}'"):
        shows(Level.STAGES)
