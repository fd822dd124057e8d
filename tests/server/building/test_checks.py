"""Questions on models: to the real compiler, which answers as `pock check` does, and to children that misbehave."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pock_server.checks import clerk, desk
from pock_server.http.problems import Failure
from pockengine.check import check_file
from pockengine.recipe import Recipe
from tests.e2e.small_model import RECIPE, make_files
from tests.server.conftest import ServerFactory
from tests.server.harness import FAKE_WORKER, Person, Server, assert_problem
from tests.sweeps import ALL

PARTS = ("runtime_bytes", "param_bytes", "state_bytes", "const_bytes", "input_bytes", "arena_bytes")
PARAMETERS = ("stem.weight", "stem.bias", "norm.weight", "norm.bias", "depth.weight", "depth.bias", "point.weight")
TARGET = "raspberry-pi-4"


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_files(tmp_path_factory.mktemp("model")).model


@pytest.fixture
def server(start_server: ServerFactory) -> Server:
    return start_server(runner="inprocess")


@pytest.fixture
def model(server: Server, person: Person, model_file: Path) -> str:
    described(person)
    return str(person.model(model_file.read_bytes())["id"])


def refused(answer: Any, failure: Failure) -> dict[str, Any]:
    """The problem that the answer is."""
    assert_problem(answer, failure.status, failure.code)
    return dict(answer.json())


def described(person: Person) -> None:
    """Wait until the compiler has said which targets there are."""
    for _ in range(600):
        if any(target["name"] == TARGET for target in person.get("/targets").json()["items"]):
            return
    raise AssertionError("the compiler was not described")


def schemes(count: int) -> Iterator[dict[str, Any]]:
    """Recipes with random updates."""
    chosen = random.Random(16)
    for _ in range(count):
        names = [name for name in PARAMETERS if chosen.random() < 0.4] + ["head.*"]
        rules: list[dict[str, Any]] = [{"params": name} for name in names]
        for rule in rules:
            if rule["params"] == "point.weight":
                rule["channels"] = chosen.choice([0.125, 0.25, 0.5, 1.0])
        yield {**RECIPE, "update": rules}


def test_answers_are_those_of_pock_check(person: Person, model: str, model_file: Path) -> None:
    for recipe in schemes(50 if ALL else 12):
        told = person.post(f"/models/{model}/estimate", {"recipe": recipe, "target": TARGET})
        assert told.status_code == 200, told.text
        body = told.json()
        expected = check_file(model_file, Recipe.from_mapping(recipe), TARGET).to_mapping()
        estimate = expected["estimate"]
        assert {key: body[key] for key in estimate if key in body} == {
            key: estimate[key] for key in estimate if key in body
        }
        assert body["layers"] and sum(body[part] for part in PARTS) == body["predicted_peak_bytes"]
        trained = {one["name"]: one["trained"] for layer in body["layers"] for one in layer["parameters"]}
        assert trained["head.weight"] == "all"
        again = person.post(f"/models/{model}/estimate", {"recipe": body["recipe"], "target": TARGET}).json()
        assert again == body, "the canonical recipe asks for the same"


def test_an_approximation_is_told_once_it_is_learned(person: Person, model: str) -> None:
    body = {"recipe": RECIPE, "target": TARGET}
    learned = [0.0]
    while learned[-1] < 1 and len(learned) < 100:
        told = person.post(f"/models/{model}/approximation", body).json()
        assert (told["takes"] is None) == (told["learned"] < 1)
        learned.append(told["learned"])
    assert learned == sorted(learned) and learned[-1] == 1
    planned = person.post(f"/models/{model}/estimate", body).json()
    about = told["takes"]
    assert about["predicted_peak_bytes"] == pytest.approx(planned["predicted_peak_bytes"], rel=0.03)
    assert sum(about[part] for part in PARTS) == about["predicted_peak_bytes"]
    wrong = person.post(f"/models/{model}/approximation", {**body, "recipe": "loss: wrong_entropy\nupdate: full\n"})
    assert refused(wrong, Failure.BAD_RECIPE)["errors"][0]["line"] == 1


def test_a_model_is_described(person: Person, model: str, model_file: Path) -> None:
    told = person.get(f"/models/{model}/check", params={"target": TARGET}).json()
    expected = check_file(model_file, None, TARGET).to_mapping()
    assert told["supported"] and told["param_count"] == expected["param_count"]
    assert [layer["name"] for layer in told["layers"]] == [layer["name"] for layer in expected["layers"]]
    assert (
        told["recipes"]["full"]["takes"]["predicted_peak_bytes"] == expected["recipes"]["full"]["predicted_peak_bytes"]
    )
    axes = {one["name"]: one["input_channels"] for layer in told["layers"] for one in layer["parameters"]}
    assert (axes["point.weight"], axes["stem.bias"], axes["head.weight"]) == (16, None, 512)
    smaller = person.get(f"/models/{model}/check", params={"target": TARGET, "batch": 2})
    assert "exported for a batch of 16" in refused(smaller, Failure.MODEL_REFUSED)["detail"]


def test_graphs_before_and_after_pruning(person: Person, model: str) -> None:
    whole = person.post(f"/models/{model}/graph", {}).json()
    assert {node["phase"] for node in whole["nodes"]} == {"forward"}
    assert {node["module"] for node in whole["nodes"]} >= {"stem", "depth", "point", "head"}
    full = person.post(f"/models/{model}/graph", {"recipe": {**RECIPE, "update": "full"}}).json()
    head = person.post(f"/models/{model}/graph", {"recipe": {**RECIPE, "update": [{"params": "head.*"}]}}).json()
    assert len(whole["nodes"]) < len(head["nodes"]) < len(full["nodes"])
    assert {node["module"] for node in head["nodes"] if node["phase"] == "backward"} <= {"head", ""}
    assert {node["trained"] for node in head["nodes"]} == {"all", "frozen", None}
    for graph in (whole, full, head):
        expected = [node["expected_us"] for node in graph["nodes"] if node["op"] in ("conv2d", "matmul")]
        assert len(expected) >= 4 and all(us > 0 for us in expected)
        assert all(maker < reader < len(graph["nodes"]) for maker, reader in graph["edges"])


@pytest.mark.parametrize(
    ("recipe", "line", "says"),
    [
        ("loss: cross_entropy\noptimiser: sgd\nupdate: full\n", 2, "optimiser"),
        ("loss: cross_entropy\nupdate:\n  - {params: head.*}\n  - {params: nothing.*}\n", 4, "nothing.*"),
        ("loss: cross_entropy\nupdate: [\n", 3, "YAML"),
        ("loss: wrong_entropy\nupdate: full\n", 1, "wrong_entropy"),
        ({"loss": "cross_entropy", "update": "everything"}, None, "everything"),
    ],
)
def test_errors_stand_at_their_line(person: Person, model: str, recipe: Any, line: int | None, says: str) -> None:
    answer = person.post(f"/models/{model}/estimate", {"recipe": recipe, "target": TARGET})
    problem = refused(answer, Failure.BAD_RECIPE)
    assert says in problem["detail"] and problem["errors"][0].get("line") == line, problem


def test_what_is_no_model_is_said_so(server: Server, person: Person) -> None:
    described(person)
    other = person.model(b"this is no ONNX file", "other")["id"]
    problem = refused(person.get(f"/models/{other}/check"), Failure.MODEL_REFUSED)
    assert "other" in problem["detail"] and "/build" not in problem["detail"]


def test_who_may_ask(server: Server, person: Person, model: str) -> None:
    stranger = server.person(workspace="elsewhere")
    refused(stranger.get(f"/models/{model}/check"), Failure.NOT_FOUND)
    refused(person.get(f"/models/{model}/check", params={"target": "rasberry"}), Failure.BAD_ARGUMENT)


@pytest.fixture
def asked(start_server: ServerFactory) -> tuple[Person, str]:
    """Somebody with a model that a double of the compiler looks at."""
    server = start_server(runner="none", worker_command=(sys.executable, str(FAKE_WORKER)), sandbox="off")
    person = server.person()
    return person, f"/models/{person.model()['id']}/graph"


def behave(asked: tuple[Person, str], behaviour: str) -> Any:
    person, path = asked
    return person.post(path, {"recipe": {"behaviour": behaviour}})


@pytest.mark.parametrize("behaviour", ["die", "garbage", "other", "nested", "wrong", "endless", "talk"])
def test_a_child_that_misbehaves_fails_one_question(asked: tuple[Person, str], behaviour: str) -> None:
    first = behave(asked, "well").json()["edges"][0][0]
    refused(behave(asked, behaviour), Failure.CHECK_FAILED)
    assert behave(asked, "well").json()["edges"][0][0] != first or behaviour in ("wrong", "endless")


def test_a_refusal_costs_no_child(asked: tuple[Person, str]) -> None:
    first = behave(asked, "well").json()
    problem = refused(behave(asked, "refuse"), Failure.BAD_RECIPE)
    assert problem["errors"] == [{"where": "body.recipe", "message": "no such key 'x'", "line": 7}]
    assert behave(asked, "well").json() == first


def test_a_question_that_takes_too_long_is_given_up(asked: tuple[Person, str], monkeypatch: pytest.MonkeyPatch) -> None:
    behave(asked, "well")
    monkeypatch.setattr(clerk, "_SECONDS", 0.5)
    refused(behave(asked, "hang"), Failure.CHECK_TIMEOUT)


def test_only_so_many_models_are_kept(asked: tuple[Person, str]) -> None:
    person, _ = asked
    first = behave(asked, "well").json()
    for number in range(2):
        other = f"/models/{person.model(f'model {number}'.encode(), f'm{number}')['id']}/graph"
        assert behave((person, other), "well").status_code == 200
    assert behave(asked, "well").json() != first, "two are kept, and this was asked about least lately"


def test_questions_do_not_pile_up(asked: tuple[Person, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_MOST_WAITING", 0)
    refused(behave(asked, "well"), Failure.BUSY)
