"""Low-rank adapters as options of a search: in recipes and back, their gains and costs, trained, chosen."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch
from torch import nn

import pockengine as pock
from pockengine.compile import plan_programs
from pockengine.errors import DataError, PockError, RecipeError
from pockengine.plan import Space as Block
from pockengine.recipe import Recipe, adapter_names
from pockengine.search import Choice, Costs, ExactCosts, Space, random_choices
from pockengine.search.choosing import Limits
from pockengine.search.choosing.additive import Rows
from pockengine.search.contributions import Contributions, Trainer, Work, fisher, gradient_ratio, load, measure, save
from pockengine.search.contributions.gradients import held_by_rank
from pockengine.search.contributions.trainer import head_start
from pockengine.search.costs.exact import request_of
from pockengine.search.job import Found, SearchRequest, run
from pockengine.search.job.comparison import adapted_last, trained_numbers
from pockengine.search.rates import RateGroups
from pockengine.search.report import report_page
from pockengine.targets import get
from tests.compiler.search.contributions.models import Task, task
from tests.compiler.search.contributions.test_trainer import really_compiled
from tests.compiler.search.models import space_of, transformer

PI = get("raspberry-pi-4")
RANKS = (1, 2)


@pytest.fixture(scope="module")
def words() -> Task:
    """A block of a transformer whose weights may have adapters."""
    one = task("words", 4)
    return replace(one, space=Space.of(one.space.graph, one.space.base, RANKS))


@pytest.fixture(scope="module")
def wide() -> Space:
    """A transformer wide enough for adapters to matter."""
    plain = space_of(transformer())
    return Space.of(plain.graph, plain.base, (2, 8))


def only(space: Space, **options: int) -> Choice:
    """These options of units by name (dots are two underscores), and the head."""
    named = {name.replace("__", "."): option for name, option in options.items()}
    head = head_start(space)
    return tuple(
        named.get(unit.name, space.full[place] if place >= head else 0) for place, unit in enumerate(space.units)
    )


def adapter(space: Space, name: str, rank: int) -> int:
    """The option of a unit that is an adapter of a rank."""
    unit = space.units[space.index[name]]
    return len(unit.shares) + unit.ranks.index(rank)


def test_weights_may_have_adapters_that_are_smaller_than_themselves(words: Task) -> None:
    units = {unit.name: unit for unit in words.space.units}
    assert units["query.weight"].ranks == (1, 2) and units["query.weight"].adapter == 16
    assert units["up.weight"].ranks == (1, 2) and units["up.weight"].adapter == 24
    assert units["head.weight"].ranks == (1, 2), "4 x 8: rank 2 has 24 of 32 numbers"
    assert units["table.weight"].ranks == () == units["query.bias"].ranks, "an embedding, a vector"
    assert words.space.ranks == RANKS and Space.of(words.space.graph, words.space.base).ranks == ()
    assert Space.of(words.space.graph, words.space.base, (500, 2, 2)).ranks == (2,)


def test_the_base_recipe_may_say_which_weights(words: Task) -> None:
    lora = {"params": ["query", "up.weight"], "alpha": 4, "seed": 7}
    space = Space.of(words.space.graph, words.space.base.with_(lora=lora), (2,))
    assert [unit.name for unit in space.units if unit.ranks] == ["query.weight", "up.weight"]
    found = space.recipe(only(space, query__weight=adapter(space, "query.weight", 2))).lora
    assert found is not None and (found.params, found.rank, found.alpha, found.seed) == (("query.weight",), 2, 4, 7)
    assert space.recipe(space.full).lora is None
    with pytest.raises(RecipeError, match="matches no weight"):
        Space.of(words.space.graph, words.space.base.with_(lora={"params": "nothing"}), (2,))


def test_a_recipe_trains_what_was_chosen(words: Task) -> None:
    space = words.space
    options = {"query__weight": adapter(space, "query.weight", 1), "up__weight": adapter(space, "up.weight", 2)}
    choice = only(space, **options, down__weight=adapter(space, "down.weight", 1), key__weight=2)
    recipe = space.recipe(choice)
    assert Recipe.from_mapping(recipe.to_mapping()) == recipe
    artifact = pock.compile(space.graph, recipe)
    trained = {tensor.name: tensor.shape for tensor in artifact.manifest.tensors if tensor.trained != "frozen"}
    assert trained["query.lora_A.weight"] == (1, 8) and trained["up.lora_B.weight"] == (16, 2)
    named = {name for unit, option in zip(space.units, choice, strict=True) for name in unit.trained(option)}
    assert named == set(trained) and "query.weight" not in trained and "key.weight" in trained
    assert artifact.summary["trained_parameters"] == trained_numbers(space, choice)


def test_adapters_alone_are_a_scheme(words: Task) -> None:
    space = words.space
    choice = tuple(len(unit.shares) if unit.name == "up.weight" else 0 for unit in space.units)
    recipe = space.recipe(choice)
    assert recipe.update == () and recipe.lora is not None
    assert ExactCosts(space, PI, 1).of(choice).peak_bytes > 0


def test_random_schemes_have_adapters_of_all_ranks(wide: Space) -> None:
    seen = Counter(
        unit.rank(option)
        for choice in islice(random_choices(wide, 1), 40)
        for unit, option in zip(wide.units, choice, strict=True)
        if unit.ranks
    )
    assert min(seen[rank] for rank in (0, 2, 8)) > 20


def test_a_rank_holds_the_part_of_its_singular_values() -> None:
    gradient = np.random.default_rng(0).standard_normal((6, 3, 5)).astype(np.float32)
    squares = np.linalg.svd(gradient.reshape(6, 15), compute_uv=False) ** 2
    found = held_by_rank(gradient, (1, 4, 6))
    assert found == pytest.approx([squares[:1].sum() / squares.sum(), squares[:4].sum() / squares.sum(), 1.0])
    assert held_by_rank(np.zeros((4, 4), np.float32), (2,)) == (0.0,) and held_by_rank(gradient, ()) == ()
    assert held_by_rank(np.outer(np.arange(9.0), np.ones(4)), (1,)) == pytest.approx((1.0,))


def test_an_adapter_brings_part_of_what_its_weight_does(words: Task) -> None:
    found = fisher(words.space, words.train)
    for unit, gains in zip(words.space.units, found.gains, strict=True):
        if unit.ranks:
            one, two = gains[len(unit.shares) :]
            assert 0 < one < two < gains[len(unit.shares) - 1]
    plain = fisher(Space.of(words.space.graph, words.space.base), words.train)
    cut = [gains[: len(unit.shares)] for unit, gains in zip(words.space.units, found.gains, strict=True)]
    assert cut == list(plain.gains)
    assert found.whole.tolist() == plain.whole.tolist()


@pytest.mark.parametrize("find", [measure, gradient_ratio], ids=["measured", "ratio"])
def test_other_ways_say_that_they_cannot_tell(words: Task, find) -> None:
    with pytest.raises(PockError, match="by Fisher information only"):
        find(words.space, *([words.train, words.evaluation] if find is measure else [words.train]))
    with pytest.raises(PockError, match="leave --rank out"):
        SearchRequest(words.space.graph, words.space.base, words.train, PI, method="gradient", ranks=(2,))
    with pytest.raises(PockError, match="at most 4"):
        SearchRequest(words.space.graph, words.space.base, words.train, PI, ranks=(1, 2, 3, 4, 5))


def test_a_file_is_of_its_ranks(words: Task, tmp_path) -> None:
    gains = tuple((0.0, *map(float, range(1, unit.options))) for unit in words.space.units)
    save(Contributions(words.space, gains, "fisher", 1.0), tmp_path / "c.json")
    assert load(tmp_path / "c.json", words.space).gains == gains
    with pytest.raises(DataError, match=r"the ranks of 'query.weight' must be a list of 1 numbers"):
        load(tmp_path / "c.json", Space.of(words.space.graph, words.space.base, (2,)))
    with pytest.raises(DataError, match=r"can have the ranks \[1, 3\]"):
        load(tmp_path / "c.json", Space.of(words.space.graph, words.space.base, (1, 3)))


def test_an_adapted_scheme_is_trained_as_it_is_compiled(words: Task) -> None:
    space = words.space
    choice = only(space, query__weight=adapter(space, "query.weight", 2), up__bias=1)
    losses, _ = really_compiled(space, choice, words.train, 6, 3)
    with Trainer(space, words.train, words.evaluation, {}, Work()) as trainer:
        first = trainer.train(choice, 6, 3)
        trainer.train(space.full, 2, 1)
        again = trainer.train(choice, 6, 3)
    assert first.losses == pytest.approx(losses, rel=1e-5) and again.losses == first.losses
    assert losses[-1] != pytest.approx(losses[0], rel=1e-3)


@pytest.fixture(scope="module")
def costs(wide: Space) -> Costs:
    return Costs(wide, PI, 2, schemes=24)


def test_costs_are_told_of_schemes_with_adapters(wide: Space, costs: Costs) -> None:
    exact = ExactCosts(wide, PI, 2)
    known = [choice for choice in islice(random_choices(wide, 5), 30) if any(map(_adapted(wide, choice), range(99)))]
    pairs = [(costs.of(choice), exact.of(choice)) for choice in known[:8]]
    peaks = [abs(told.peak_bytes / true.peak_bytes - 1) for told, true in pairs]
    assert len(peaks) == 8 and np.median(peaks) < 0.02 and max(peaks) < 0.1
    assert np.median([abs(told.step_ms / true.step_ms - 1) for told, true in pairs]) < 0.1


def _adapted(space: Space, choice: Choice):
    return lambda place: place < len(choice) and space.units[place].rank(choice[place]) > 0


def test_state_and_adapters_are_exact(wide: Space, costs: Costs) -> None:
    for choice in (adapted_last(wide, 8)[-1], adapted_last(wide, 2)[3]):
        sizes = plan_programs(request_of(wide, choice, PI, 2)).spaces.sizes
        told = sum(sizes[block] for block in (Block.PARAM, Block.STATE, Block.INPUT))
        assert costs.beside_arena(choice) == pytest.approx(told, rel=1e-3)


def test_an_adapter_may_take_less_than_a_share(wide: Space, costs: Costs) -> None:
    unit = next(place for place, unit in enumerate(wide.units) if unit.name.endswith("0.ffn.lin1.weight"))
    gains = tuple((0.0, *[1.0] * (unit.options - 1)) for unit in wide.units)
    takes = Rows(wide, costs, gains).problem(wide.full, Limits()).takes[unit]
    whole, low, high = (takes[place].max() for place in (len(wide.units[unit].shares) - 1, -2, -1))
    assert low < whole and low <= high


def test_rates_of_adapters_are_a_group(words: Task) -> None:
    space = words.space
    groups = RateGroups.of(space, only(space, query__weight=adapter(space, "query.weight", 2), up__weight=1))
    assert groups.members["adapters"] == adapter_names("query.weight")
    assert set(groups.members) == {"head", "weights", "adapters"}
    written = groups.written({"head": 0.1, "weights": 0.2, "adapters": 0.3})
    assert [written.rates_of(name)[0] for name in ("head.weight", "up.weight", "query.lora_B.weight")] == [
        0.1,
        0.2,
        0.3,
    ]


class Residual(nn.Module):
    """A residual block of two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(48), nn.Linear(48, 192), nn.Linear(192, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> tuple[SearchRequest, Found]:
    """What is found for a third of the memory that training everything takes beyond the head."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 48), Residual(), Residual(), nn.Linear(48, 4)).eval()
    graph, base = pock.from_torch(model, (torch.zeros(8, 16),)), Recipe("cross_entropy", "adamw", batch=8)
    x = np.random.default_rng(0).standard_normal((128, 16)).astype(np.float32)
    data = {graph.inputs[0].name: x, "labels": x[:, :4].argmax(axis=1)}
    space = Space.of(graph, base)
    peaks = [ExactCosts(space, PI, 1).of(choice).peak_bytes for choice in (only(space), space.full)]
    request = SearchRequest(
        graph,
        base,
        data,
        PI,
        Limits(peaks[0] + (peaks[1] - peaks[0]) // 3),
        data,
        threads=1,
        folder=tmp_path_factory.mktemp("state"),
        lr_steps=4,
        confirm=6,
        ranks=(2, 4),
    )
    return request, run(request)


@pytest.mark.large
def test_adapters_are_chosen_where_they_bring_most(found: tuple[SearchRequest, Found]) -> None:
    request, result = found
    assert any(unit.rank for unit in result.units)
    without = run(replace(request, ranks=(), folder=None, lr_steps=0, confirm=0))
    assert result.chosen.gain > without.chosen.gain
    assert request.limits.memory_bytes is not None
    assert result.chosen.cost.peak_bytes <= request.limits.memory_bytes
    artifact = pock.compile(request.graph, Recipe.parse(result.recipe), "raspberry-pi-4", 1)
    assert artifact.summary["predicted_peak_bytes"] == result.chosen.cost.peak_bytes
    assert artifact.summary["trained_parameters"] == result.compared[0].numbers


@pytest.mark.large
def test_usual_adapters_are_compared(words: Task, found: tuple[SearchRequest, Found]) -> None:
    result = found[1]
    compared = {one.name: one for one in result.compared}
    adapted = [one for name, one in compared.items() if name.startswith("lora")]
    assert adapted and all(one.accuracy is not None for one in (*adapted, compared["found"]))
    assert all(result.limits.keeps(one.cost) for one in adapted)


@pytest.mark.large
def test_what_was_found_is_kept_and_shown(found: tuple[SearchRequest, Found]) -> None:
    request, result = found
    assert Found.from_mapping(json.loads(json.dumps(result.to_mapping()))) == result
    assert run(request).recipe == result.recipe
    page = report_page(result)
    ranks = {unit.rank for unit in result.units if unit.rank}
    assert ranks and all(f"rank {rank}" in page for rank in ranks) and "adapters of rank" in page
