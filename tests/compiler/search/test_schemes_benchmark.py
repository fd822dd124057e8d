"""The comparison of schemes: learning rates as a state, results that are kept, methods that keep to the memory."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pockengine as pock
from benchmarks.schemes import campaign as campaigns
from benchmarks.schemes import searching
from benchmarks.schemes.__main__ import rows_of, said_of
from benchmarks.schemes.campaign import SHARES, Campaign
from benchmarks.schemes.costs import TARGET, THREADS, Costs
from benchmarks.schemes.methods import (
    AT_ONCE,
    AT_PUBLISHED,
    CRITERIA,
    FOUND,
    HALF,
    IN_A_THIRD,
    IN_HALF_THE_TIME,
    METHODS,
    SEARCHED,
    method_of,
    rated_as,
)
from benchmarks.schemes.published import PUBLISHED
from benchmarks.schemes.running import Bench, Means, OutOfTimeError
from benchmarks.schemes.scores import FULL, Scores
from benchmarks.schemes.searching import CLOCK, WAYS, Searching
from benchmarks.schemes.setting import Setting
from benchmarks.schemes.store import Store
from benchmarks.tasks import networks, pretraining
from benchmarks.tasks import task as tasks
from benchmarks.tasks.models import BATCH, MODELS, TASKS, Model
from benchmarks.tasks.pretraining import pretrained, start_of
from benchmarks.tasks.rates import STEPS_DOWN
from benchmarks.tasks.task import Task
from benchmarks.tasks.training import Plan, Trainer
from pockengine.recipe import Recipe, resolve
from pockengine.search import Choice, Cost, CostModel, Space
from pockengine.search import Costs as Estimates
from pockengine.search.contributions import Contributions, Data, Work
from pockengine.targets import get
from tests.sweeps import some

NAME = "motion/streams"


@pytest.fixture(scope="module")
def model() -> Model:
    """Small, and pre-trained for some steps only."""
    network = partial(networks.motion, widths=(8, 12))
    return replace(MODELS[NAME], network=network, samples=20 * BATCH, epochs=1, least=0.0)


def rough(space: Space) -> Estimates:
    """From fewer schemes than usual."""
    return Estimates(space, get(TARGET), THREADS, CLOCK, schemes=8)


@pytest.fixture(scope="module")
def setting(model: Model) -> Setting:
    task, weights = TASKS["new-activities"], dict(model.graph().data)
    costs = Costs(model)
    searching = Searching(model, costs, weights)
    searching.__dict__["estimates"] = rough(searching.space)
    return Setting(model, searching.space, costs, 0.5, task, task.data(0).train, weights, searching)


def test_a_rate_that_is_a_state_trains_as_one_that_is_compiled_in(model: Model) -> None:
    samples = TASKS["new-activities"].data(0).train
    optimizer = {**model.optimizer, "lr": model.optimizer["lr"] * STEPS_DOWN**2}
    with Trainer(pock.compile(model.graph(), model.recipe("bias"), threads=1)) as trainer:
        trainer.train(samples, Plan(steps=3, rate=0))
        trainer.begin({})
        trainer.train(samples, Plan(steps=1, rate=2))  # one step: it ends before the rate falls
        ours = trainer.session.state()
    with pock.compile(model.graph(), pock.Recipe("cross_entropy", optimizer, "bias", BATCH), threads=1).load(
        1
    ) as session:
        order = np.random.default_rng([0, 77]).permutation(len(samples))
        session.step(samples.batch(order[:BATCH]))
        theirs = session.state()
    assert any(not np.array_equal(theirs[name], model.graph().data[name]) for name in theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-5, atol=1e-6)


IN_ANY_FORM = (FOUND, IN_A_THIRD, "found-adapters", "found-elsewhere")
METHODS_TRIED = [*(name for name in METHODS if name not in (*CRITERIA, *IN_ANY_FORM)), "found-earlier", "random-0"]


@pytest.mark.parametrize("name", some(METHODS_TRIED, 11))
def test_a_method_keeps_to_the_memory(name: str, setting: Setting) -> None:
    made = method_of(name)(setting)
    if name in AT_PUBLISHED:
        assert made is None, "nothing is published for this architecture"
        return
    assert made is not None
    if name == IN_HALF_THE_TIME:
        assert setting.costs.of(made.recipe).cycles <= HALF * setting.costs.full.cycles
    else:
        assert setting.fits(made.recipe)
    scheme = resolve(made.recipe, setting.model.graph())
    assert "classifier.weight" in scheme.trained() or made.recipe.lora is not None
    assert setting.costs.of(made.recipe).cycles < 1.05 * setting.costs.full.cycles
    if name not in SEARCHED:
        assert method_of(name)(replace(setting, share=-0.5)) is None


def test_more_memory_is_used_where_there_is_more(setting: Setting) -> None:
    for name in some((AT_ONCE, "last", "random-0", "bias"), 2):
        less, more = (method_of(name)(replace(setting, share=share)) for share in (0.5, 0.95))
        assert less is not None and more is not None
        assert setting.costs.of(less.recipe).memory_bytes <= setting.costs.of(more.recipe).memory_bytes
    assert setting.costs.limit(0) == setting.costs.head.memory_bytes
    assert setting.costs.limit(1) == setting.costs.full.memory_bytes


class Wrong:
    """Estimates that are off by a factor."""

    def __init__(self, estimates: CostModel, factor: float) -> None:
        self.estimates, self.factor = estimates, factor

    def of(self, choice: Choice) -> Cost:
        cost = self.estimates.of(choice)
        return replace(cost, peak_bytes=int(self.factor * cost.peak_bytes))


def test_the_most_that_fits_is_found_whatever_the_estimate_says(setting: Setting) -> None:
    counts = range(1, len(setting.space.units) + 1)
    recipes = [partial(setting.model.recipe, {"params": "*", "last": count}) for count in counts]
    fitting = [one for one in recipes if setting.fits(one())]
    for wrong in (0.5, 2.0):
        searching = Searching(setting.model, setting.costs, setting.weights)
        searching.__dict__["estimates"] = Wrong(setting.searching.estimates, wrong)
        made = replace(setting, searching=searching).most(recipes)
        assert made is not None and made.recipe.to_mapping() == fitting[-1]().to_mapping()


def test_what_the_search_chose_is_at_least_what_evolution_did(setting: Setting) -> None:
    ours, theirs = (method_of(name)(setting) for name in (AT_ONCE, "evolution"))
    assert ours is not None and theirs is not None
    assert 0 < 0.99 * theirs.about["gain"] <= ours.about["gain"] <= ours.about["bound"] * (1 + 1e-6)


def test_contributions_of_other_tasks_are_of_the_other_half(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def told(task: Task, way: str) -> Contributions:
        asked.append(task.name)
        factor = 10.0 ** len(asked)
        return Contributions(setting.space, tuple(tuple(factor * one for one in u.shares) for u in setting.space.units),
                             way, 0.0)  # fmt: skip

    monkeypatch.setattr(setting.searching, "contributions", told)
    names = [one.name for one in setting.model.tasks]
    one = setting.searching.averaged(TASKS[names[1]], "default")
    assert asked == names[::2]
    units = len(setting.space.units) - 2  # all but the head's
    assert one.gains[0][-1] == pytest.approx(1 / units), "each task counts the same"


def test_estimates_and_contributions_are_kept(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def estimates(*args: object) -> Estimates:
        made.append("estimates")
        return setting.searching.estimates

    def even(space: Space, data: Data, work: Work) -> Contributions:
        made.append("even")
        return WAYS["even"](space, data, work)

    monkeypatch.setattr(searching, "estimated", estimates)
    monkeypatch.setattr(searching, "WAYS", {"even": even})
    for _ in range(2):
        again = Searching(setting.model, setting.costs, setting.weights, tmp_path)
        assert again.estimates.of(setting.space.full) == setting.searching.estimates.of(setting.space.full)
        assert again.contributions(setting.task, "even").gains[-1][-1] == len(setting.space.units)
    assert made == ["estimates", "even"]


def test_the_rate_is_the_best_on_two_parts(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One part alone would choose another; where it diverges, no other part makes up for it."""
    bench, task = Bench(model, Means(Store(tmp_path / "s.jsonl"))), TASKS["new-user"]
    accuracies = {0: (0.9, 0.0), 1: (0.5, 0.8), 2: (0.7, 0.65), 3: (0.7, 0.65)}
    losses = {0: (0.1, None), 1: (0.5, 0.5), 2: (0.5, 0.5), 3: (0.4, 0.5)}
    judged: list[bytes] = []

    def result(recipe: Recipe, task: Task, data: tasks.Data, plan: Plan) -> dict[str, Any]:
        part = data.held_out.labels.tobytes() + b"".join(one.tobytes() for one in data.held_out.inputs.values())
        if part not in judged:
            judged.append(part)
        fold = judged.index(part)
        assert len(data.train) == 3 * len(data.held_out)
        return {"accuracy": accuracies[plan.rate][fold], "loss": losses[plan.rate][fold]}

    monkeypatch.setattr(bench, "_result", result)
    value, rate = bench._rated(model.recipe("head"), task)
    assert value == (0.7 + 0.65, -(0.4 + 0.5)) and rate == 3 and len(judged) == 2
    assert rated_as("random-1") == ("random-1",) and rated_as("random-7") == ("random-0", "random-1", "random-2")


def test_a_new_head_that_stays_frozen_is_compiled_in_for_each_start(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretraining, "default_folder", lambda: tmp_path)
    bench, task = Bench(model, Means(Store(tmp_path / "s.jsonl"))), TASKS["new-activities"]
    first = next(name for name in model.graph().data if name not in model.head)
    for seed in (0, 1, 1):
        bench._adapted(model.recipe([{"params": first}]), task, task.data(seed), Plan(2, 1, seed))
        assert bench._open is not None
        start = start_of(model, task, seed, bench.weights)
        assert set(bench._open.head) == set(model.head)
        assert all(np.array_equal(bench._open.head[name], start[name]) for name in model.head)
    bench.close()


def test_adapters_are_trained_at_lower_rates_by_sgd(setting: Setting) -> None:
    made = method_of("lora")(setting)
    assert made is not None
    optimizer = made.recipe.optimizer
    assert optimizer.name == "sgd"
    rates = [optimizer.rates_of(name)[0] for name in ("stem.lora_A.weight", "stem.weight")]
    assert rates == [optimizer.lr / 10, optimizer.lr]


@pytest.mark.parametrize("name", some(PUBLISHED, 10))
def test_a_published_scheme_names_what_the_network_has(name: str) -> None:
    model = next(model for model in MODELS.values() if model.name == name)
    recipe = model.recipe(PUBLISHED[name])
    trained = resolve(recipe, model.graph()).trained()
    everything = resolve(model.recipe(), model.graph()).trained()
    assert 4 < len(trained) < 0.6 * len(everything)
    for rule in PUBLISHED[name]:
        if rule != "head":
            assert resolve(model.recipe([rule]), model.graph()).trained(), rule


def test_kept_results_count_where_runs_begin_with_the_same_weights(tmp_path: Path, small: Campaign) -> None:
    kept, campaign = tmp_path / "kept.jsonl", replace(small, tasks=("new-user",), methods=())
    store = Store(tmp_path / "here.jsonl", kept)
    store.add("a", {"kind": "cost", "memory_bytes": 1})
    assert campaigns.run(campaign, store, tmp_path / "found")
    rows = rows_of(campaign, store)
    for seconds in (2.0, 1.0):
        store.add("b", {"kind": "choosing", "ours": {"seconds": seconds}})
        store.keep()
    lines = kept.read_text().splitlines()
    assert len(rows) == 2 and len(lines) == len(rows) + 2, "the scheme, a row for each seed, and the newest time"
    assert json.loads(lines[-1])["ours"] == {"seconds": 1.0}
    there = Store(tmp_path / "there.jsonl", kept)
    assert campaigns.run(campaign, there, tmp_path / "found") and rows_of(campaign, there) == rows
    assert not there.file.exists(), "nothing was run"
    with kept.open("a") as file:
        file.writelines(json.dumps({**row, "key": f"other {row['key']}", "weights": "others"}) + "\n" for row in rows)
    both = Scores(rows_of(campaign, Store(tmp_path / "there.jsonl", kept)))
    assert len(both.runs[FULL]) == 2, "other weights are another cell"


def test_a_run_that_two_models_have_in_common_is_a_row_of_each(
    tmp_path: Path, small: Campaign, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(model, frozen="int4")
    monkeypatch.setitem(MODELS, other.key, other)
    campaign = replace(small, models=(NAME, other.key), tasks=("new-user",), methods=(), seeds=1)
    store = Store(tmp_path / "here.jsonl")
    assert campaigns.run(campaign, store, tmp_path / "found")
    rows = rows_of(campaign, store)
    assert [row["model"] for row in rows] == [NAME, other.key] and rows[0]["accuracy"] == rows[1]["accuracy"]


@pytest.fixture
def small(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """Of the small model."""
    monkeypatch.setattr(pretraining, "default_folder", lambda: tmp_path)
    monkeypatch.setattr(searching, "estimated", rough)
    monkeypatch.setitem(MODELS, NAME, model)
    return Campaign((NAME,), ("new-activities", "new-user"), ("head", "random"), 2, 2, (0.5,), steps=12)


def test_jobs_are_balanced_wherever_they_end() -> None:
    campaign = Campaign((NAME, "mcunet/sounds"), None, ("found", "published", "random"), seeds=3, randoms=4)
    jobs = list(campaign.jobs())
    assert len(jobs) == sum(len(MODELS[key].tasks) for key in campaign.models)
    assert [job.model for job in jobs[:6]] == [*campaign.models] * 3
    names = [[(one.method, one.share) for one in campaign.schemes(job, 0)] for job in jobs]
    assert ("published", 1.0) in names[1] and not any(name == "published" for name, _ in names[0])
    every = [(one.method, one.share) for seed in range(3) for one in campaign.schemes(jobs[0], seed)]
    assert [every.count((f"random-{number}", SHARES[0])) for number in range(5)] == [1, 1, 1, 1, 0]


@pytest.mark.large
def test_a_campaign_that_was_ended_goes_on(
    small: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, folder = tmp_path / "results.jsonl", tmp_path / "found"
    assert not campaigns.run(replace(small, minutes=0.0), Store(file), folder) and not file.exists()
    store, compile = Store(file), pock.compile
    count = 0

    def few(*args: Any, **options: Any) -> pock.Artifact:
        nonlocal count
        count += 1
        if count > 3:
            raise OutOfTimeError
        return compile(*args, **options)

    monkeypatch.setattr(pock, "compile", few)
    assert not campaigns.run(small, store, folder)
    part = rows_of(small, Store(file))
    assert {one["method"] for one in part} == {"full", "head"}
    monkeypatch.setattr(pock, "compile", compile)
    assert campaigns.run(small, Store(file), folder)
    rows = rows_of(small, Store(file))
    assert len(rows) == 2 * 2 * 2 + 2 * 2 and all(one in rows for one in part)
    assert all(0 < one["accuracy"] <= 1 and 0 < one["memory"] <= 1 for one in rows)
    assert "2 of 2: motion/streams, new-activities" in capsys.readouterr().err

    def nothing(*args: object, **options: object) -> None:
        raise AssertionError("it was compiled again")

    monkeypatch.setattr(pock, "compile", nothing)
    assert campaigns.run(small, Store(file), folder) and rows_of(small, Store(file)) == rows
    text = said_of(small, Store(file), cells=True)
    assert "| full | any | 2 × 2 to 2 |" in text and "| head | 50% | 2 × 2 to 2 |" in text and "new-activities" in text


def test_processes_share_a_campaign(small: Campaign, tmp_path: Path) -> None:
    store, campaign = Store(tmp_path / "results.jsonl"), replace(small, methods=())
    assert not campaigns.run(replace(campaign, minutes=0.0), store, tmp_path / "found", processes=2)
    assert campaigns.run(campaign, store, tmp_path / "found", processes=2)
    rows = rows_of(campaign, store)
    assert len(rows) == 4 and {one["method"] for one in rows} == {"full"}


def test_pre_training_is_done_once(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "default_folder", lambda: tmp_path)
    small = replace(model, samples=2 * BATCH)
    weights = pretrained(small)
    (file,) = (tmp_path / "pretrained").glob("*.safetensors")
    written = file.stat().st_mtime_ns
    assert all(np.array_equal(pretrained(small)[name], value) for name, value in weights.items())
    assert file.stat().st_mtime_ns == written
    assert json.loads(file.with_suffix(".json").read_text())["steps"] == 2
    pretrained(replace(small, rate=2))
    assert len(list((tmp_path / "pretrained").glob("*.safetensors"))) == 2

    same, new = (start_of(small, TASKS[name], 0, weights) for name in ("new-user", "new-activities"))
    assert same is weights
    assert not np.array_equal(new["classifier.weight"], weights["classifier.weight"])
    assert np.array_equal(new["stem.weight"], weights["stem.weight"])
