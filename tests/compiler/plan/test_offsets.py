"""Offsets of real training steps are within 1 % of the bytes that are alive at once."""

from __future__ import annotations

import pytest
import torch

import pockengine as pock
from benchmarks.peers.torch_models import build
from benchmarks.workloads import FAMILIES, WORKLOADS
from pockengine.compile import Planned, Request, Scope, plan_programs
from pockengine.ir import Graph
from pockengine.targets import get
from tests.compiler.passes.networks import cnn, decoder, transformer

NETWORKS = {"cnn": cnn, "decoder": decoder, "transformer": transformer}


def assert_tight(planned: Planned) -> None:
    for name, program in planned.programs.items():
        assert program.plan.arena_bytes <= 1.01 * program.plan.lower_bound_bytes, name


@pytest.fixture(scope="module")
def mcunet() -> Graph:
    family = FAMILIES["mcunet"]
    return pock.from_torch(build(family), (torch.from_numpy(family.feed(batch=1)[family.input_name]),))


@pytest.mark.parametrize("optimizer", ({"name": "sgd", "lr": 0.1, "momentum": 0.9}, {"name": "adamw"}))
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("batch", (1, 8))
def test_small_networks(network: str, batch: int, optimizer: dict[str, object]) -> None:
    assert_tight(
        plan_programs(Request(NETWORKS[network](batch), pock.Recipe(optimizer=optimizer), get("raspberry-pi-4")))
    )


@pytest.mark.parametrize("name", [name for name, one in WORKLOADS.items() if one.family == "mcunet"])
def test_a_workload_of_the_comparison(mcunet: Graph, name: str) -> None:
    recipe = pock.Recipe(
        optimizer={"name": "sgd", "lr": 0.1, "momentum": 0.9}, update=list(WORKLOADS[name].update), batch=1
    )
    planned = plan_programs(Request(mcunet, recipe, get("raspberry-pi-4")))
    assert_tight(planned)


def test_what_is_kept_of_a_fully_trained_mcunet(mcunet: Graph) -> None:
    """Of each convolution its input, once: 4.3 MiB, and what the largest kernel needs beside them."""
    planned = plan_programs(Request(mcunet, pock.Recipe(update="full", batch=1), get("raspberry-pi-4")))
    assert planned.lower_bound_bytes < 5 << 20


def test_within_a_budget(mcunet: Graph) -> None:
    recipe = pock.Recipe(update="full", batch=1)
    planned = plan_programs(Request(mcunet, recipe, get("raspberry-pi-4"), memory=8 << 20, scope=Scope.TRAINING))
    assert planned.recomputed.nodes > 0
    assert_tight(planned)
