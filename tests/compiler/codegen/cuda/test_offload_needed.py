"""With a budget no more is offloaded than keeps to it: what that is, what it costs, and that results stay the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pockengine.artifact import Artifact
from pockengine.cli.console import figures
from pockengine.codegen import backends
from pockengine.compile import Planned, Request, compile, plan_programs, predicted_peak_bytes, step_cycles
from pockengine.compile.offloading import in_turn, movables
from pockengine.compile.pack import summary
from pockengine.errors import MemoryBudgetError, RecipeError
from pockengine.ir import DType, Graph, TensorType
from pockengine.passes import offload
from pockengine.plan.budget import RESERVE
from pockengine.plan.space import Space
from pockengine.recipe import Recipe
from pockengine.targets import Memory, Target
from tests.compiler.codegen.cuda.driver import beside, make_driver, needs_compiler
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.passes.networks import Net

pytestmark = needs_compiler

WIDTH, BATCH, LAYERS, FROZEN = 128, 16, 12, 6
MATRIX = 4 * WIDTH * WIDTH
BUDGETS = 6
TRAINED = [{"params": f"l{layer:02}.*"} for layer in range(FROZEN, LAYERS - 2)]
RECIPE = Recipe(loss="mse", optimizer="adamw", update=TRAINED, offload=["frozen", "state"])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of the models are large enough to be offloaded, biases are not."""
    monkeypatch.setattr(offload, "LEAST_BYTES", MATRIX)


def deep(batch: int = BATCH, layers: int = LAYERS) -> Graph:
    """Layers of one width, of which the first have no gradient of a weight behind them."""
    net = Net("deep", seed=1)
    h = net.builder.input("x", TensorType(DType.F32, (batch, WIDTH)))
    for layer in range(layers):
        h = net.relu6(net.linear(h, f"l{layer:02}", WIDTH))
    return net.finish(h)


def planned(
    recipe: Recipe, memory: int | None = None, graph: Graph | None = None, target: Target | None = None
) -> Planned:
    cuda = backends.get("cuda")
    return plan_programs(Request(graph or deep(), recipe, target or beside(), 1, memory=memory, backend=cuda))


def linked(mb_per_s: int) -> Target:
    """A GPU whose link to its host carries so much."""
    target = beside()
    assert target.gpu is not None
    return replace(target, gpu=replace(target.gpu, link_mb_per_s=mb_per_s))


def peak(found: Planned) -> int:
    """What a budget has to allow."""
    return predicted_peak_bytes(found) + RESERVE


def there(found: Planned) -> set[str]:
    return {name for (_, name), place in found.spaces.places.items() if place.space is Space.HOST}


@pytest.fixture
def extremes(small: None) -> tuple[Planned, Planned]:
    """With nothing offloaded, and with everything."""
    return planned(RECIPE.with_(offload=[])), planned(RECIPE)


def budgets(extremes: tuple[Planned, Planned], count: int = BUDGETS) -> Iterator[int]:
    """From what is enough for all to what is enough with everything offloaded."""
    most, least = map(peak, extremes)
    return (most - (most - least) * step // (count - 1) for step in range(count))


def test_the_less_memory_the_more_is_offloaded(extremes: tuple[Planned, Planned]) -> None:
    whole, moved = extremes
    found = [planned(RECIPE, memory) for memory in budgets(extremes)]
    sizes = [one.spaces.sizes[Space.HOST] for one in found]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (0, moved.spaces.sizes[Space.HOST])
    for one, memory in zip(found, budgets(extremes), strict=True):
        assert peak(one) <= memory
        assert not there(one) or peak(one) > memory - 3 * MATRIX
        assert one.recomputed.nodes == 0
    times = [step_cycles(one).step for one in found]
    assert times == sorted(times) and times[0] == step_cycles(whole).step < times[-1]
    with pytest.raises(MemoryBudgetError, match="training needs at least .* MiB allowed in the memory 'gpu'"):
        planned(RECIPE, peak(moved) - 8 * MATRIX)


def test_what_costs_least_goes_first(extremes: tuple[Planned, Planned]) -> None:
    whole, moved = extremes
    names = there(moved)
    turn = in_turn(whole, names)
    assert {one.name for one in turn} == names
    kinds = [one.pace for one in turn]
    once, twice, state = (1.0, 0.0), (2.0, 0.0), (0.0, 1.0)
    assert kinds == [once] * FROZEN + [twice] * 2 + [state] * (len(names) - FROZEN - 2)
    assert [one.name for one in turn[:2]] == ["l05.weight", "l01.weight"]
    assert [one.name for one in movables(whole, names) if one.pace == once] == [
        f"l{n:02}.weight" for n in range(FROZEN)
    ]
    waiting = in_turn(planned(RECIPE.with_(offload=[]), target=linked(1)), names)
    assert {one.pace for one in waiting[:2]} == {once, state}


def _kept(to: list[tuple[Planned, object]], made: Planned, tuning: object) -> None:
    to.append((made, tuning))


def _losses(artifact: Artifact) -> list[float]:
    rng = np.random.default_rng(0)
    data = {name: rng.standard_normal((BATCH, WIDTH)).astype(np.float32) for name in ("x", "labels")}
    with artifact.load() as session:
        return [session.step(data) for _ in range(4)]


@pytest.mark.parametrize("streams", ["late", "eager"])
def test_losses_are_those_of_a_gpu_that_has_it_all(
    extremes: tuple[Planned, Planned], streams: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", streams)
    losses = []
    for memory in (None, *list(budgets(extremes))[2:5:2]):
        recipe, made = RECIPE.with_(offload=[]) if memory is None else RECIPE, list[tuple[Planned, object]]()
        artifact = compile(deep(), recipe, beside(), 1, memory=memory, inspect=partial(_kept, made))
        folder = tmp_path / str(memory)
        folder.mkdir()
        with monkeypatch.context() as patch:
            patch.setenv("LD_LIBRARY_PATH", str(make_driver(made[0][0].programs, folder)))
            losses.append(apart(_losses, artifact))
    assert losses[0][-1] < losses[0][0]
    assert losses == [losses[0]] * 3


def test_computing_twice_is_chosen_where_it_is_quicker() -> None:
    """Many activations, which are cheap to compute again, beside state that the kernels would wait for."""
    graph, recipe = deep(4096), RECIPE.with_(update="full", offload="state")
    whole = planned(recipe.with_(offload=[]), graph=graph)
    memory = peak(whole) - 2 * MATRIX
    again, moved = (planned(recipe, memory, graph, target) for target in (linked(10), beside()))
    assert again.recomputed != moved.recomputed and not there(again) and there(moved)
    assert max(peak(again), peak(moved)) <= memory


def test_a_recipe_says_whether_all_is_moved(extremes: tuple[Planned, Planned]) -> None:
    whole, moved = extremes
    both = ["frozen", "state"]
    always, needed = ({"what": both, "all": value} for value in (True, False))
    assert there(planned(RECIPE.with_(offload=always), peak(whole))) == there(moved)
    assert not there(planned(RECIPE.with_(offload=needed)))
    small = replace(beside(), accelerators=(Memory("gpu", peak(whole) - MATRIX, 256),))
    assert there(moved) > there(planned(RECIPE.with_(offload=needed), target=small)) > set()
    for said in (both, always, needed):
        assert (
            Recipe.from_mapping(RECIPE.with_(offload=said).to_mapping()).offload == RECIPE.with_(offload=said).offload
        )
    for wrong, error in (
        ({"all": True}, "offload has no 'what': say frozen or state"),
        ({"what": "state", "every": 1}, "offload has the unknown key 'every'"),
        ({"what": "stat"}, r"offload.what has 'stat', which is none of frozen, state \(did you mean 'state'\?\)"),
        ({"what": "state", "all": 3}, "offload.all must be true or false"),
    ):
        with pytest.raises(RecipeError, match=error):
            RECIPE.with_(offload=wrong)


def test_people_are_told_how_much_and_what_it_costs(extremes: tuple[Planned, Planned]) -> None:
    whole, moved = extremes
    told = summary(moved, 1)
    cycles = step_cycles(moved)
    assert told["host_tensors"] == len(there(moved))
    assert told["host_share"] == pytest.approx(cycles.step / cycles.computing - 1, abs=1e-4) and told["host_share"] > 0
    assert figures(told)["offloaded"] == f"{told['host_tensors']} tensors, about {told['host_share']:.1%} more time"
    assert "offloaded" not in figures(summary(whole, 1)) and "host_tensors" not in summary(whole, 1)
