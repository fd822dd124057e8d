"""How quickly a scheme of a model is estimated, as the service does it for the page: all programs planned.

    python -m benchmarks.scheme_costs.answers [--model NAME ...] [--rounds N] [--random N] [--target NAME]

`first` is the first estimate of a model, `next` one after that of another scheme, and `again` the same once more.
Milliseconds are medians: of the clock, and in brackets of the processor.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import torch

import pockengine as pock
from benchmarks.document import table
from benchmarks.peers.torch_models import settled
from benchmarks.workloads import FAMILIES
from pockengine.check import estimate
from pockengine.codegen import backends
from pockengine.codegen.backend import Backend
from pockengine.compile import Kept, uncollected
from pockengine.recipe import Recipe
from pockengine.search import Space, random_choices
from pockengine.targets import Target, get

MODELS = ("mobilenetv2", "distilbert")
BATCH = 8
SEED = 4099
BEFORE = {"params": "*", "last": 2}
"""The scheme that is estimated before the others."""
PRESETS: Mapping[str, object] = {
    "full": "full",
    "bias": "bias",
    "head": "head",
    "last4": {"params": "*", "last": 4},
    "last12": {"params": "*", "last": 12},
}
HEAD = ("scheme", "first, ms", "next, ms", "again, ms")


@dataclass
class Desk:
    """Who answers questions on one model; knows nothing at first."""

    space: Space
    target: Target
    backend: Backend = field(default_factory=backends.get)
    kept: Kept = field(default_factory=Kept)

    def seconds(self, recipe: Recipe) -> tuple[float, float]:
        """What one estimate takes: of the clock, and of the processor."""
        clock, processor = time.perf_counter(), time.process_time()
        with uncollected():
            estimate(self.space.graph, recipe, self.target, backend=self.backend, kept=self.kept)
        return time.perf_counter() - clock, time.process_time() - processor


Times = list[tuple[float, float]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    for name in options.model:
        rows = _rows(space_of(name), get(options.target), options.rounds, options.random)
        print(f"{FAMILIES[name].title}, batch {BATCH}:\n\n{table(HEAD, rows)}\n", flush=True)
    return 0


def space_of(name: str) -> Space:
    """Every scheme of a model, trained by SGD with momentum."""
    family = FAMILIES[name]
    feed = family.feed(batch=BATCH)
    graph = pock.from_torch(settled(family), (torch.from_numpy(feed[family.input_name]),))
    return Space.of(graph, Recipe(family.loss, {"name": "sgd", "lr": 0.01, "momentum": 0.9}))


def _rows(space: Space, target: Target, rounds: int, random: int) -> list[list[str]]:
    recipes = {name: space.base.with_(update=update) for name, update in PRESETS.items()}
    before = space.base.with_(update=BEFORE)
    times: dict[str, tuple[Times, Times, Times]] = {name: ([], [], []) for name in recipes}
    for _ in range(rounds):
        for name, recipe in recipes.items():
            first, then, again = times[name]
            first.append(Desk(space, target).seconds(recipe))
            desk = Desk(space, target)
            desk.seconds(before)
            then.append(desk.seconds(recipe))
            again.append(desk.seconds(recipe))
    desk = Desk(space, target)
    drawn = [space.recipe(choice) for choice in islice(random_choices(space, SEED), random)]
    desk.seconds(before)
    chance = [desk.seconds(recipe) for recipe in drawn]
    rows = [[name, *map(_median, found)] for name, found in times.items()]
    return [*rows, [f"{random} random ones", "", _median(chance), ""]]


def _median(times: Times) -> str:
    clock, processor = (statistics.median(1e3 * one[of] for one in times) for of in (0, 1))
    return f"{clock:.0f} ({processor:.0f})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--random", type=int, default=12, help="schemes drawn by chance (default: %(default)s)")
    parser.add_argument("--target", default="raspberry-pi-4")
    return parser


if __name__ == "__main__":
    sys.exit(main())
