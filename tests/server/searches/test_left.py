"""What a search leaves behind: another's word until it is read, and the search itself by the real worker."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from safetensors.numpy import save

from pock_server.runner.harvest import NoArtifact
from pock_server.searches.harvest import harvest_search
from tests.compiler.frontends.onnx_models import model
from tests.server.artifacts import FOUND, FOUND_FILES
from tests.server.building.test_runner import wait_for
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server


def left(tmp_path: Path, **changes: bytes | None) -> Path:
    """A child's folder with what it left; None: not at all."""
    folder = tmp_path / "child"
    for name in ("out", "scratch"):
        (folder / name).mkdir(parents=True)
    for name, content in {
        **FOUND_FILES,
        **{name.replace("_", "."): content for name, content in changes.items()},
    }.items():
        if content is not None:
            (folder / "out" / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    ("changes", "told", "says"),
    [
        ({"recipe_yaml": None}, FOUND, "no recipe"),
        ({"report_html": None}, FOUND, "no report"),
        ({"recipe_yaml": b"\xff"}, FOUND, "no text"),
        ({"recipe_yaml": b"[1, 2]"}, FOUND, "not a mapping"),
        ({"recipe_yaml": b"a: &x [1]\nb: *x"}, FOUND, "alias"),
        ({"recipe_yaml": b"a: " + b"b" * 300_000}, FOUND, "more than 100000 characters"),
        ({"recipe_yaml": b"a: " + b"b" * 500_000}, FOUND, "500003 bytes; the limit is 400000"),
        ({}, {"kernels": 3}, "something else than what it found"),
        ({}, {**FOUND, "gap": float("nan")}, "something else than what it found"),
        ({}, {**FOUND, "more": 1}, "something else than what it found"),
    ],
)
@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_what_a_child_left_is_another_s_word(
    server: Server, tmp_path: Path, changes: dict[str, Any], told: dict[str, Any], says: str
) -> None:
    folder = left(tmp_path, **changes)
    with pytest.raises(NoArtifact, match=re.escape(says)):
        harvest_search(folder, folder / "scratch", told, server.services.blobs)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_links_are_not_followed(server: Server, tmp_path: Path) -> None:
    folder = left(tmp_path, report_html=None)
    (folder / "out" / "report.html").symlink_to("/etc/passwd")
    with pytest.raises(NoArtifact, match="no report"):
        harvest_search(folder, folder / "scratch", FOUND, server.services.blobs)


def network() -> bytes:
    """[batch, 4] to three classes, by a hidden layer."""
    rng = np.random.default_rng(0)
    weights = {
        "a.weight": rng.normal(size=(8, 4)).astype(np.float32),
        "a.bias": np.zeros(8, np.float32),
        "b.weight": rng.normal(size=(3, 8)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["input", "a.weight", "a.bias"], ["h"], name="a", transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "b.weight"], ["logits"], name="b", transB=1),
    ]
    made = model(nodes, {"input": (np.float32, [4, 4])}, ["logits"], weights)
    return bytes(made.SerializeToString())


def samples(person: Person, name: str, classes: int = 3) -> str:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, classes, 16)
    labels[0] = classes - 1
    data = save({"input": rng.normal(size=(16, 4)).astype(np.float32), "labels": labels})
    return str(person.post("/datasets", {"name": name, "digest": person.upload(data)}).json()["id"])


def ended(person: Person, search: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = person.get(f"/searches/{search}").json()
        return found if found["finished_at"] else None

    return dict(wait_for(look, 120))


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_the_search_itself_goes_on_after_its_runner_went(start_server: ServerFactory) -> None:
    """By the real worker: the runner is stopped in the middle, and the next attempt does not ask the data
    again. Data that do not fit are one clear error."""
    server = start_server(runner="inprocess", compiler_cache_dir="")
    person = server.person()
    wait_for(lambda: server.services.compiler.load().version != "1", 120)
    asked = {"model_id": person.model(network())["id"], "dataset_id": samples(person, "digits"), "threads": 1}
    recipe = {"loss": "cross_entropy", "optimizer": "sgd", "batch": 4}
    asked |= {"target": "raspberry-pi-4", "recipe": recipe, "memory_bytes": 8 << 20, "channels": "magnitude"}
    asked |= {"watts": 5.0, "joules": 1.0, "lr_steps": 4}
    search = person.post("/searches", asked).json()["id"]

    def stage() -> str:
        now = person.get(f"/searches/{search}").json()
        assert now["failure"] is None, (now["failure"], person.get(f"/searches/{search}/log").text)
        return str(now["progress"] and now["progress"]["stage"])

    wait_for(lambda: stage() in ("costs", "choose", "probe", "front", "compare"), 120)
    server.client.__exit__(None, None, None)
    server.client.__enter__()
    found = ended(person, search)
    log = person.get(f"/searches/{search}/log").text
    assert found["state"] == "succeeded", (found["failure"], log)
    assert "attempt 1" in log and "goes on from what it found" in log
    assert 0 < found["found"]["peak_bytes"] <= 8 << 20 and found["found"]["gap"] < 1
    assert found["found"]["joules"] == pytest.approx(5e-3 * found["found"]["step_ms"])
    assert found["found"]["learning_rates"] and min(found["found"]["learning_rates"].values()) > 0
    text = person.get(f"/recipes/{found['recipe_version']['id']}").json()["text"]
    assert "Found by pock search for raspberry-pi-4" in text and "update:" in text
    page = person.get(f"/blobs/sha256/{found['report_digest']}").text
    assert "<html" in page and "<script" not in page and "a.weight" in page
    whole = json.loads(person.get(f"/blobs/sha256/{found['result_digest']}").content)
    assert whole["recipe"] == text and whole["chosen"]["cost"]["peak_bytes"] == found["found"]["peak_bytes"]
    cache = server.services.settings.effective_build_cache_dir
    assert not list(cache.glob("*/searches/*")), "what was kept for a further attempt goes with the last"
    wrong = person.post("/searches", {**asked, "dataset_id": samples(person, "wrong", classes=9)}).json()["id"]
    failure = ended(person, wrong)["failure"]
    assert failure["code"] == 10004, failure
    assert re.search(r"'labels' of the data has 8 at sample 0, and the model takes 0 to 2", failure["detail"])
