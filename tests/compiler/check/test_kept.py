"""What estimates of one model keep from one to the next changes no answer."""

from __future__ import annotations

import random
from importlib import import_module
from typing import Any

import pytest

from pockengine.check import estimate
from pockengine.codegen import backends
from pockengine.compile import Kept
from pockengine.ir import Graph
from pockengine.passes import Context, optimise
from pockengine.recipe import Recipe
from pockengine.targets import get
from tests.compiler.models import zoo
from tests.sweeps import some

TARGETS = ("raspberry-pi-4", "raspberry-pi-5")


def recipes(graph: Graph, seed: int, count: int) -> list[Recipe]:
    """Recipes that train some parameters at random, and differ in what else an estimate depends on."""
    chosen = random.Random(seed)
    names = [value.name for value in graph.params if value.name not in graph.untrained]
    found = []
    for number in range(count):
        trained = [name for name in names if chosen.random() < 0.3] or names[-1:]
        loss = chosen.choice(("cross_entropy", {"name": "cross_entropy", "label_smoothing": 0.1}))
        optimizer = chosen.choice(("sgd", "adamw"))
        recipe = Recipe(loss, optimizer, [{"params": name} for name in trained])
        found.append(recipe.with_(ema=0.99) if number % 4 == 3 else recipe)
    return found


@pytest.mark.parametrize("name", some(["mobilenet_v2", "bert"], 2))
def test_an_estimate_is_the_same_whatever_was_estimated_before(name: str) -> None:
    graph, backend, kept = zoo.graph(name), backends.get(), Kept(24)
    for number, recipe in enumerate([*recipes(graph, 7, 4), Recipe(update="bias")]):
        target = get(TARGETS[number % 2])
        told = estimate(graph, recipe, target, backend=backend, kept=kept)
        assert told == estimate(graph, recipe, target), recipe


def test_evaluation_is_made_again_only_where_it_is_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm's scale is computed with where it is frozen; a convolution's weight never is."""
    graph, backend, target, kept = zoo.graph("mobilenet_v2"), backends.get(), get("raspberry-pi-4"), Kept()
    made: list[str] = []

    def noted(graph: Graph, passes: Any, context: Context, program: str) -> Graph:
        made.append(program)
        return optimise(graph, passes, context, program=program)

    monkeypatch.setattr(import_module("pockengine.compile.kept"), "optimise", noted)
    convolutions, scales = (
        [value.name for value in graph.params if value.name.endswith(kind)]
        for kind in ("convolution.weight", "normalization.weight")
    )
    calls = []
    for name in (*convolutions[:3], *scales[:2], convolutions[0]):
        made.clear()
        estimate(graph, Recipe(update=[{"params": name}]), target, backend=backend, kept=kept)
        calls.append(len(made))
    first, *rest = calls
    assert first == 6, "algebra, shaping and order of two programs"
    assert rest == [0, 0, first, first, 0]
