"""The comparison of schemes: learning rates as a state, results that are kept, methods that keep to the memory, and a
short run of the whole."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import pockengine as pock
from benchmarks.schemes.costs import Costs
from benchmarks.schemes.methods import METHODS, Setting, full
from benchmarks.schemes.published import PUBLISHED
from benchmarks.schemes.report import cells_table, interval, schemes_table
from benchmarks.schemes.running import Bench, Scheme
from benchmarks.schemes.store import Store, digest_of
from benchmarks.tasks import networks, pretraining
from benchmarks.tasks.models import BATCH, MODELS, TASKS, Model
from benchmarks.tasks.pretraining import pretrained, start_of
from benchmarks.tasks.rates import STEPS_DOWN
from benchmarks.tasks.training import Plan, Trainer
from pockengine.recipe import resolve
from pockengine.search import Space


@pytest.fixture(scope="module")
def model() -> Model:
    """Small, and pre-trained for some steps only."""
    network = partial(networks.motion, widths=(8, 12))
    return replace(MODELS["motion/streams"], network=network, samples=20 * BATCH, epochs=1)


@pytest.fixture(scope="module")
def setting(model: Model) -> Setting:
    task = TASKS["new-activities"]
    weights = dict(model.graph().data)
    space = Space.of(model.graph(), model.recipe())
    return Setting(model, space, Costs(model), 0.9, task, task.data(0).train, weights)


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


@pytest.mark.parametrize("name", METHODS)
def test_a_method_keeps_to_the_memory(name: str, setting: Setting) -> None:
    recipe = METHODS[name](setting)
    if name == "published":
        assert recipe is None, "nothing is published for this architecture"
        return
    assert recipe is not None and setting.fits(recipe)
    scheme = resolve(recipe, setting.model.graph())
    assert "classifier.weight" in scheme.trained() or recipe.lora is not None
    assert setting.costs.of(recipe).cycles < setting.costs.full.cycles
    assert METHODS[name](replace(setting, share=0.0)) is None


def test_more_memory_is_used_where_there_is_more(setting: Setting) -> None:
    for name in ("bias", "last", "random-0"):
        less, more = (METHODS[name](replace(setting, share=share)) for share in (0.9, 0.97))
        assert less is not None and more is not None
        assert setting.costs.of(less).memory_bytes <= setting.costs.of(more).memory_bytes
    assert setting.costs.full.memory_bytes == setting.costs.of(full(setting) or pock.Recipe()).memory_bytes


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_scheme_names_what_the_network_has(name: str) -> None:
    model = next(model for model in MODELS.values() if model.name == name)
    recipe = model.recipe(PUBLISHED[name])
    trained = resolve(recipe, model.graph()).trained()
    everything = resolve(model.recipe(), model.graph()).trained()
    assert 4 < len(trained) < 0.6 * len(everything)
    for rule in PUBLISHED[name]:
        if rule != "head":
            assert resolve(model.recipe([rule]), model.graph()).trained(), rule


def test_results_are_kept_and_lines_that_were_cut_off_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path / "sub" / "results.jsonl")
    store.add("a", {"accuracy": 0.5})
    with store.file.open("a") as file:
        file.write('{"key": "b", "accu')
    again = Store(store.file)
    assert again.get("a") == {"key": "a", "accuracy": 0.5} and again.get("b") is None
    again.add("c", {"accuracy": 0.25})
    assert [one["key"] for one in Store(store.file)] == ["a", "c"]
    assert digest_of([1, 2], b"x") != digest_of([1], b"x") != digest_of([1], b"y")


def test_a_short_run_and_the_same_from_what_was_kept(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretraining, "default_folder", lambda: tmp_path)
    task = TASKS["new-activities"]
    schemes = [(Scheme("full", 1.0), full), (Scheme("head", 0.9), METHODS["head"])]

    def results(store: Store) -> list[dict[str, object]]:
        bench = Bench(model, store, seeds=2, steps=12)
        found = [one for scheme, method in schemes for one in bench.run(scheme, method, (task,))]
        bench.close()
        return found

    first = results(Store(tmp_path / "results.jsonl"))
    assert [(one["method"], one["seed"]) for one in first] == [("full", 0), ("full", 1), ("head", 0), ("head", 1)]
    assert all(0 < one["accuracy"] <= 1 and 0 < one["memory"] <= 1 for one in first)  # type: ignore[operator]

    def nothing(*args: object, **options: object) -> None:
        raise AssertionError("it was compiled again")

    monkeypatch.setattr(pock, "compile", nothing)
    assert results(Store(tmp_path / "results.jsonl")) == first
    text = schemes_table(first) + cells_table(first)
    assert "| full | any | 1 |" in text and "| head | 90% | 1 |" in text and "new-activities" in text


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


def test_an_interval() -> None:
    assert interval([1.0, 2.0, 3.0]) == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert np.isnan(interval([1.0]))
