"""Searches, as a client sees them: asked for, followed, and what they found as files."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from pock_client import (
    Client,
    PockClientError,
    ProgressEvent,
    SearchCancelled,
    SearchFailed,
    ServiceError,
    WaitTimeout,
)
from tests.server.artifacts import FOUND, FOUND_FILES
from tests.server.harness import safetensors

_number = itertools.count()


@pytest.fixture
def order(client: Client, tmp_path: Path) -> dict[str, Any]:
    """A model that no other test searches, and data."""
    model, data = tmp_path / f"searched{next(_number)}.onnx", tmp_path / "digits.safetensors"
    model.write_bytes(b"a model " + bytes(str(tmp_path), "utf-8"))
    data.write_bytes(safetensors({"input": ("F32", (8, 4)), "labels": ("I64", (8,))}))
    client.models.push(model)
    return {"model": model.stem, "dataset": client.datasets.push(data), "target": "host"}


def test_a_search_is_followed_to_its_recipe(client: Client, order: dict[str, Any], tmp_path: Path) -> None:
    told: list[Any] = []
    base = client.recipes.push("{batch: 2}", name="base")
    asked = {**order, "eval_dataset": order["dataset"], "recipe": base, "memory_bytes": 1 << 20, "method": "measured"}
    search = client.searches.create(**asked, prefer="time", minutes=5, confirm=10, seed=3, step_ms=2.5)
    assert (search.memory_bytes, search.step_ms, search.recipe) == (1 << 20, 2.5, {"batch": 2})
    assert (search.method, search.prefer, search.confirm, search.seed) == ("measured", "time", 10, 3)
    done = client.searches.wait(search.id, told.append, timeout=60)
    assert any(isinstance(event, ProgressEvent) for event in told)
    assert done.found is not None and done.found.peak_bytes == FOUND["peak_bytes"]
    assert done.recipe_version is not None and done.recipe_version.name == order["model"]
    recipe = client.recipes.get(done.recipe_version.id)
    assert recipe.text.encode() == FOUND_FILES["recipe.yaml"]
    assert (recipe.model_id, recipe.search_id) == (done.model.id, done.id)
    assert [one.id for one in client.recipes.list(model_id=done.model.id)] == [recipe.id]
    assert client.searches.report(done, tmp_path / "r.html").read_bytes() == FOUND_FILES["report.html"]
    assert client.searches.result(done, tmp_path / "r.json").read_bytes() == FOUND_FILES["found.json"]
    assert [one.id for one in client.searches.list(model_id=done.model.id, state="succeeded")] == [done.id]
    assert client.searches.find(order["model"]).id == done.id
    assert "asked to" in client.searches.log(done.id)
    client.searches.delete(done.id)
    with pytest.raises(ServiceError, match="no search"):
        client.searches.get(done.id)


def test_searches_that_fail_or_are_cancelled_say_so(client: Client, order: dict[str, Any], tmp_path: Path) -> None:
    failed = client.searches.create(**order, name="fail")
    with pytest.raises(SearchFailed, match="Operator Foo"):
        client.searches.wait(failed.id, timeout=60)
    with pytest.raises(PockClientError, match="has found nothing"):
        client.searches.report(client.searches.get(failed.id), tmp_path / "r.html")
    slow = client.searches.create(**order, name="hang")
    with pytest.raises(WaitTimeout):
        client.searches.wait(slow.id, timeout=0.2)
    assert client.searches.cancel(slow.id).state == "cancelled"
    with pytest.raises(SearchCancelled):
        client.searches.wait(slow.id, timeout=60)


def test_a_wrong_order_is_refused(client: Client, order: dict[str, Any]) -> None:
    with pytest.raises(ServiceError, match="eval_dataset_id"):
        client.searches.create(**order, confirm=5)
    with pytest.raises(TypeError, match="memroy"):
        client.searches.create(**order, memroy=5)
