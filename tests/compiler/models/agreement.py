"""Whether a family, imported and compiled, trains as PyTorch trains it: for the test and for benchmarks/coverage.py."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import pockengine.frontends
from pockengine import interp
from pockengine.autodiff import train_graph, with_adapters
from pockengine.autodiff.step import LOSS
from pockengine.compile import compile
from pockengine.ir import Array, DType, Graph
from pockengine.recipe import ALL, SGD, AdamW, Channels, Recipe, Scheme, is_adapter, resolve
from pockengine.targets import Target

from . import reference
from .families import FAMILIES
from .family import Family

STEPS = 10
LOSS_TOLERANCE = 1e-4
"""Of each loss, relative."""
TENSOR_TOLERANCE = 1e-3
"""Of each updated tensor, relative to its largest element."""
CHANGE_TOLERANCE = 2e-2
"""Of what ten steps changed in an updated tensor, in Euclidean norm: a small rate could hide a wrong one."""

# Rates at which these random models do not diverge: two correct programs drift apart where training is chaotic.
# Adam divides by the gradient's size: where that is rounding noise (a bias of attention keys, a channel that a relu
# has silenced) a small eps would turn the noise into full steps.
SGD_MOMENTUM = SGD(lr=1e-2, momentum=0.9, weight_decay=1e-4)
ADAMW = AdamW(lr=5e-4, eps=1e-5, weight_decay=0.01)
LORA_ADAMW = AdamW(lr=1e-3, eps=1e-5, weight_decay=0.01)
"""Adapters start at zero, and the gradient of one half of each is as small as the other half."""


@dataclass(frozen=True)
class Imported:
    """A family's module as a graph."""

    family: Family
    graph: Graph
    seconds: float

    @property
    def operators(self) -> list[str]:
        return sorted({node.op for node in self.graph.nodes})


@dataclass(frozen=True)
class Agreement:
    """How far ten steps of ours are from ten of PyTorch's.

    loss      largest relative difference of a loss
    tensor    largest difference of an updated tensor, relative to its largest element
    change    largest difference of an updated tensor, relative to what the steps changed in it
    problems  one line for each thing that is not as it should be"""

    updated: int
    loss: float
    tensor: float
    change: float
    problems: tuple[str, ...]


TINY = float(np.finfo(np.float32).tiny)

KINDS = ("full", "sparse", "lora")


def kinds(family: Family) -> list[str]:
    """The recipes a family is tried with."""
    return [kind for kind in KINDS if kind != "lora" or family.lora is not None]


@cache
def imported(name: str) -> Imported:
    """The family's module, imported once."""
    family = FAMILIES[name]
    module = family.build()
    started = time.perf_counter()
    graph = pockengine.frontends.from_torch(module, kwargs=family.inputs(0), fixed=family.fixed)
    return Imported(family, graph, time.perf_counter() - started)


def recipe(family: Family, kind: str) -> Recipe:
    """Full updates go with AdamW, sparse ones with momentum."""
    how: dict[str, dict[str, Any]] = {
        "full": {"optimizer": ADAMW, "update": "full"},
        "sparse": {"optimizer": SGD_MOMENTUM, "update": family.sparse},
        "lora": {"optimizer": LORA_ADAMW, "lora": {"params": family.lora, "rank": 2, "alpha": 4}},
    }
    return Recipe(loss=family.loss, batch=family.batch, **how[kind])


def agreement(name: str, kind: str, interpreted: bool = False) -> Agreement:
    """Train `STEPS` steps both ways with the recipe `kind` and compare; ours as machine code, or interpreted."""
    model = imported(name)
    return compared(model.family, model.graph, recipe(model.family, kind), interpreted)


def compared(
    family: Family,
    graph: Graph,
    recipe: Recipe,
    interpreted: bool = False,
    backend: str | None = None,
    target: str | Target = "host",
) -> Agreement:
    """The same for any recipe, backend and target that runs here."""
    recipe = recipe.bound(graph)
    scheme = resolve(recipe, with_adapters(graph, recipe.lora) if recipe.lora else graph)
    if interpreted:
        step_graph, initial, found = train_graph(graph, recipe, scheme), dict(graph.data), dict(graph.data)
        losses = [float(interp.step(step_graph, family.feeds(step), found)[LOSS]) for step in range(STEPS)]
        found = {name: found[name] for name in initial}
    else:
        with compile(graph, recipe, target, threads=2, backend=backend).load() as session:
            initial = session.state()
            losses = [session.step(family.feeds(step)) for step in range(STEPS)]
            found = session.state()
    adapters = {name: tensor for name, tensor in initial.items() if is_adapter(name)}
    narrow = {name for name, tensor in initial.items() if tensor.dtype == DType.BF16.numpy}
    expected = reference.train(family, scheme, recipe, adapters, STEPS, narrow)
    initial, found = ({name: _wide(tensor) for name, tensor in tensors.items()} for tensors in (initial, found))
    return _compare(scheme, initial, (losses, found), expected)


def _wide(tensor: Array) -> Array:
    return tensor.astype(np.float32) if tensor.dtype == DType.BF16.numpy else tensor


def _compare(
    scheme: Scheme,
    initial: dict[str, Array],
    found: tuple[list[float], dict[str, Array]],
    expected: tuple[list[float], dict[str, Array]],
) -> Agreement:
    problems = []
    loss = max(abs(a - b) / abs(b) for a, b in zip(found[0], expected[0], strict=True))
    if not loss < LOSS_TOLERANCE:
        problems.append(f"the losses {found[0]} are not {expected[0]}")
    if found[1].keys() != expected[1].keys():
        problems.append(
            f"the tensors that come back are not the module's: {sorted(found[1].keys() ^ expected[1].keys())}"
        )
    updated, tensors, changes = 0, [0.0], [0.0]
    for key, tensor in found[1].items():
        what = scheme.of(key)
        frozen = tensor if what != ALL else None
        if what == ALL or isinstance(what, Channels):
            updated += 1
            tensors.append(error(tensor, expected[1][key]))
            changes.append(_change_error(tensor, expected[1][key], initial[key]))
            if np.array_equal(tensor, initial[key]):
                problems.append(f"{key} was not updated")
            if not (tensors[-1] < TENSOR_TOLERANCE and changes[-1] < CHANGE_TOLERANCE):
                problems.append(f"{key} is off by {tensors[-1]:.1e}, its change by {changes[-1]:.1e}")
        before = initial[key]
        if isinstance(what, Channels):
            others = np.setdiff1d(np.arange(tensor.shape[what.axis]), what.indices)
            frozen, before = tensor.take(others, what.axis), before.take(others, what.axis)
        if frozen is not None and not np.array_equal(frozen, before):
            problems.append(f"{key} changed where it is frozen")
    return Agreement(updated, loss, max(tensors), max(changes), tuple(problems))


def _change_error(found: Array, expected: Array, initial: Array) -> float:
    """Difference relative to what was changed, without what rounding to float32 after each step may do."""
    rounding = STEPS * np.finfo(np.float32).eps * np.linalg.norm(expected)
    wrong, change = float(np.linalg.norm(found - expected)), float(np.linalg.norm(expected - initial))
    return max(wrong - float(rounding), 0.0) / max(change, TINY)


def error(found: Array, expected: Array) -> float:
    """Largest difference, relative to the tensor's largest element."""
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), TINY))
