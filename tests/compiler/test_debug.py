"""`POCK_DEBUG`: each level shows what it says, and all that the levels below it show; without it nothing is shown."""

from __future__ import annotations

import re

import pytest
import torch

import pockengine as pock
from pockengine.compile import Request, plan_inference, plan_programs, predicted_peak_bytes
from pockengine.debug import VARIABLE, Level, shows, timed
from pockengine.errors import PockError
from pockengine.ir import Graph
from pockengine.plan.budget import RESERVE
from pockengine.progress import quiet
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.training.networks import CNN

SHOWN = {
    Level.STAGES: r"^plan: \d+\.\d+ s$",
    Level.SIZES: r"^train: fuse: (\d+) -> (?!\1)\d+ nodes, \d+ bytes of values, \d+\.\d+ s$",
    Level.GRAPHS: r'^graph "Linear"$',
    Level.SOURCES: r"^train: plan: \d+ steps, \d+ bytes of arena$",
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
        symbol = re.search(r"^train: step 0 forward '[^']*': (\w+) -> %\S+ in arena at \d+", err, re.MULTILINE)
        assert symbol is not None and f"void {symbol[1]}(" in err
        assert re.search(rf"^(\w+, )*train(, \w+)*: kernel {symbol[1]}$", err, re.MULTILINE)
        assert re.search(r"^train: slot \d+\+\d+ from step \d+ to \d+: activation ", err, re.MULTILINE)


PASS = r"^([^:\n]+): \w+: \d+ -> \d+ nodes, "


def test_each_pass_says_which_program_it_is_about(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(Level.SIZES.value))
    recipe = Recipe("mse", {"name": "adamw"}, update=[{"params": "weight"}], accumulate=2)
    planned = plan_programs(Request(graph, recipe, get("raspberry-pi-4"), 1))
    passes = re.findall(PASS, capsys.readouterr().err, re.MULTILINE)
    assert set(passes) == {"model", "train, all of it", *planned.programs}
    assert {"train", "eval", "predict", "accumulate"} == set(planned.programs)
    plan_inference(graph, get("raspberry-pi-4"), 1)
    assert set(re.findall(PASS, capsys.readouterr().err, re.MULTILINE)) == {"predict"}


def test_a_program_that_is_planned_again_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The passes of a budget and of packed weights are about programs too."""
    monkeypatch.setenv(VARIABLE, str(Level.SIZES.value))
    model, recipe, target = CNN.build(32), Recipe("cross_entropy", "adamw"), get("raspberry-pi-4")
    free = plan_programs(Request(model, recipe, target, 1))
    capsys.readouterr()
    memory = predicted_peak_bytes(free) + RESERVE - 4096
    assert plan_programs(Request(model, recipe, target, 1, memory=memory)).arena_bytes < free.arena_bytes
    shown = capsys.readouterr().err
    for one in ("rematerialise", "lower_peak", "read_packed"):
        assert re.search(rf"^train: {one}: ", shown, re.MULTILINE)
    assert "graph: " not in shown


def test_without_a_level_the_callback_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert timed(quiet) is quiet and not shows(Level.STAGES)


@pytest.mark.parametrize("said", ["5", "-1", "all"])
def test_what_is_no_level_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, said)
    with pytest.raises(PockError, match=f"POCK_DEBUG must be a level from 1 to 4, or 0 for nothing, not '{said}'"):
        shows(Level.STAGES)
