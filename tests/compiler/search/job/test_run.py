"""The whole search: within the limit as planned, no worse than what a person would write, the same when run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pockengine as pock
from pockengine.compile import Request, plan_programs, predicted_peak_bytes
from pockengine.errors import MemoryBudgetError, PockError
from pockengine.recipe import Channels, Recipe, resolve
from pockengine.search import Space
from pockengine.search.choosing import Limits, Preference
from pockengine.search.contributions import importance
from pockengine.search.job import Compared, Found, SearchRequest, run
from pockengine.targets import get
from tests.compiler.search import networks
from tests.sweeps import some

TARGET = "raspberry-pi-4"


def request(share: float = 0.5, **changes) -> SearchRequest:
    """With so much of the memory that training everything takes beyond training the head."""
    graph, base = networks.graph(), Recipe("cross_entropy", "adamw", batch=networks.BATCH)
    peaks = [
        predicted_peak_bytes(plan_programs(Request(graph, base.with_(update=update), get(TARGET), 1)))
        for update in ("head", "full")
    ]
    data, held_out = (networks.named(networks.samples(count, seed=seed), graph) for count, seed in ((128, 2), (64, 3)))
    limits = Limits(int(peaks[0] + share * (peaks[1] - peaks[0])))
    asked = SearchRequest(graph, base, data, get(TARGET), limits, held_out, threads=1)
    return replace(asked, **changes)


def compared(found: Found, name: str) -> Compared:
    """One of the compared schemes, which is there."""
    one = found.of(name)
    assert one is not None
    return one


@pytest.fixture(scope="module")
def asked() -> SearchRequest:
    return request()


@pytest.fixture(scope="module")
def found(asked: SearchRequest, tmp_path_factory) -> Found:
    folder = tmp_path_factory.mktemp("state")
    return run(replace(asked, folder=folder, confirm=60))


def test_the_recipe_keeps_the_limit_as_planned(asked: SearchRequest, found: Found) -> None:
    recipe = Recipe.parse(found.recipe)
    peak = predicted_peak_bytes(plan_programs(Request(asked.graph, recipe, asked.target, 1)))
    assert asked.limits.memory_bytes is not None
    assert peak == found.chosen.cost.peak_bytes <= asked.limits.memory_bytes
    assert str(peak) in found.recipe and "raspberry-pi-4" in found.recipe
    artifact = pock.compile(asked.graph, recipe, TARGET, 1)
    assert artifact.summary["predicted_peak_bytes"] == peak


def test_the_recipe_names_the_channels_that_are_read_most(asked: SearchRequest, found: Found) -> None:
    space = Space.of(asked.graph, asked.base)
    assert found.provenance["channels"] == "activation" and "channels by activation" in found.recipe
    most = importance.by_activation(space, asked.data)
    scheme, partial = resolve(Recipe.parse(found.recipe), asked.graph), 0
    for unit, option in zip(space.units, found.chosen.choice, strict=True):
        if option and unit.shares[option] < 1:
            wanted = np.sort(np.argsort(-most[unit.name], kind="stable")[: unit.channels(option)])
            trained = scheme.of(unit.name)
            assert isinstance(trained, Channels) and trained.indices == tuple(wanted.tolist())
            partial += 1
    assert partial, "the limit leaves some weight in part"


def test_nothing_usual_that_fits_brings_more(asked: SearchRequest, found: Found) -> None:
    fitting = [one for one in found.compared if asked.limits.keeps(one.cost)]
    names = {one.name for one in found.compared}
    assert {"found", "full", "head", "bias"} <= names and any(name.startswith("last") for name in names)
    assert found.chosen.gain == pytest.approx(max(one.gain for one in fitting))
    assert found.chosen.gain <= found.chosen.bound
    assert not asked.limits.keeps(compared(found, "full").cost)


def test_short_trainings_confirm_it(found: Found) -> None:
    best, head = compared(found, "found"), compared(found, "head")
    assert [len(one.trained) for one in found.compared] == [3] * len(found.compared)
    assert best.accuracy is not None and head.accuracy is not None
    assert best.accuracy > head.accuracy, "dark bars need more than a new head"


def test_a_folder_makes_the_second_search_short_and_the_same(
    asked: SearchRequest, found: Found, tmp_path: Path
) -> None:
    first = run(replace(asked, folder=tmp_path))
    stages: list[str] = []
    again = run(replace(asked, folder=tmp_path, progress=lambda stage, done, total: stages.append(stage)))
    assert again == first and again.recipe == found.recipe
    assert not {"costs", "probe", "choose", "front"} & set(stages)
    (file,) = tmp_path.glob("found-*.json")
    file.write_text('{"model": 1}')
    assert run(replace(asked, folder=tmp_path)).recipe == first.recipe, "what is no result is found anew"


def test_another_limit_and_preference_is_another_search(asked: SearchRequest, found: Found, tmp_path: Path) -> None:
    wide = run(replace(asked, folder=tmp_path, limits=Limits()))
    assert wide.chosen.gain == pytest.approx(compared(wide, "full").gain)
    other = run(replace(asked, folder=tmp_path, prefer=Preference.BALANCED))
    assert asked.limits.keeps(other.chosen.cost) and other.chosen.gain <= found.chosen.gain + 1e-9
    cost, most = other.chosen.cost, found.chosen.cost
    assert cost.peak_bytes <= most.peak_bytes or cost.step_ms <= most.step_ms


def test_too_little_memory_says_the_least(asked: SearchRequest) -> None:
    with pytest.raises(MemoryBudgetError) as error:
        run(replace(asked, limits=Limits(1 << 18)))
    least = error.value.least_bytes
    assert str(least) in str(error.value)
    assert run(replace(asked, limits=Limits(least))).chosen.cost.peak_bytes == least


def test_held_out_samples_are_asked_for_where_they_are_needed() -> None:
    for changes in ({"method": "measured"}, {"confirm": 5}):
        with pytest.raises(PockError, match="give --eval-data"):
            request(eval_data=None, **changes)
    with pytest.raises(PockError, match="channels are not chosen by 'size'"):
        request(channels="size")
    with pytest.raises(PockError, match="there is no method 'fischer' .did you mean 'fisher'"):
        request(method="fischer")


def test_learning_rates_are_in_the_recipe(asked: SearchRequest, found: Found, tmp_path: Path) -> None:
    """The scheme stays what it is, and so does what it takes."""
    short = replace(asked, lr_steps=8, folder=tmp_path)
    one = run(short)
    recipe, plain = Recipe.parse(one.recipe), Recipe.parse(found.recipe)
    assert one.rates is not None and one.rates.steps == 8
    assert {recipe.optimizer.lr, *(group.lr for group in recipe.optimizer.groups)} == set(one.rates.lr.values())
    assert recipe.with_(optimizer=plain.optimizer) == plain
    planned = plan_programs(Request(asked.graph, recipe, asked.target, 1))
    assert predicted_peak_bytes(planned) == one.chosen.cost.peak_bytes
    assert run(short).recipe == one.recipe, "from the folder"
    assert run(replace(asked, folder=tmp_path)).recipe == found.recipe, "without rates, as before"
    with pytest.raises(PockError, match="lr_steps is a number of steps"):
        replace(asked, lr_steps=-1)


def test_from_python(asked: SearchRequest, found: Found) -> None:
    """As a person calls it."""
    again = pock.search(asked.graph, asked.base, asked.data, TARGET, 1, memory=asked.limits.memory_bytes)
    assert again.recipe == found.recipe
    with pytest.raises(PockError, match="it is not known what 'raspberry-pi-4' draws"):
        pock.search(asked.graph, asked.base, asked.data, TARGET, joules=1.0)
    with pytest.raises(PockError, match="nothing prefers 'speed'"):
        pock.search(asked.graph, asked.base, asked.data, prefer="speed")


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from pockengine.search.job import run
from tests.compiler.search.job.test_run import request

def progress(stage, done, total):
    print(stage, flush=True)

print(run(replace(request(), folder=Path(sys.argv[1]), confirm=10, progress=progress)).recipe)
"""


@pytest.mark.parametrize("stage", some(["confirm", "compare"], 2))
def test_killed_in_a_stage_and_run_again(stage: str, found: Found, asked: SearchRequest, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=Path(__file__).parents[4]
    ) as process:
        assert process.stdout is not None
        assert any(line.strip() == stage for line in process.stdout), "the stage begins"
        process.send_signal(signal.SIGKILL)
    assert run(replace(asked, folder=tmp_path, confirm=10)).recipe == found.recipe
