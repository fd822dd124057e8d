"""Versions and tags of models, datasets and builds; runs and builds say what they are of by name."""

from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from pock_server.auth.schemas import Scope
from pock_server.runner.sweeper import sweep_all
from tests.server.fleet.test_races import codes, together
from tests.server.harness import Device, Person, Server, assert_problem

ID = "018f0000-0000-7000-8000-000000000000"


def push(person: Person, data: bytes, name: str = "net", **more: Any) -> Any:
    return person.post("/models", {"name": name, "digest": person.upload(data), **more})


def recipe(person: Person, words: str, name: str = "sparse") -> Any:
    return person.post("/recipes", {"name": name, "text": words})


def meant(person: Person, ref: str, kind: str = "models") -> str | None:
    """The id of what is meant; a list has one item at most."""
    answer = person.get(f"/{kind}", params={"ref": ref})
    assert answer.status_code == 200, answer.text
    items = answer.json()["items"]
    assert len(items) <= 1 and answer.json()["next_cursor"] is None
    return items[0]["id"] if items else None


def tag(person: Person, kind: str, row_id: str, word: str, method: str = "PUT") -> Any:
    return person.call(method, f"/{kind}/{row_id}/tags/{word}")


def test_a_name_has_versions(person: Person) -> None:
    first, second = push(person, b"one"), push(person, b"two")
    assert [(answer.status_code, answer.json()["version"]) for answer in (first, second)] == [(201, 1), (201, 2)]
    again = push(person, b"one")
    assert again.status_code == 200 and again.json() == first.json()
    weights = person.upload(b"weights")
    assert push(person, b"one", external={"w": weights}).json()["version"] == 3
    assert push(person, b"one", name="other").json()["version"] == 1
    assert len(person.get("/models").json()["items"]) == 4
    assert person.dataset()["version"] == 1 and person.dataset(9)["version"] == 2


def test_the_same_dataset_is_one(person: Person) -> None:
    made = person.dataset()
    again = person.post("/datasets", {"name": made["name"], "digest": made["digest"]})
    assert again.status_code == 200 and again.json() == made


def test_a_number_never_comes_twice(person: Person) -> None:
    push(person, b"one")
    second = push(person, b"two").json()
    assert person.call("DELETE", f"/models/{second['id']}").status_code == 204
    assert push(person, b"three").json()["version"] == 3 and meant(person, "net:v2") is None


def test_references(server: Server, person: Person) -> None:
    first, second = push(person, b"one").json(), push(person, b"two").json()
    other = push(person, b"one", name="a:b").json()
    odd = push(person, b"one", name=ID).json()
    tag(person, "models", first["id"], "stable")
    for ref, row in {
        "net": second,
        "net:v1": first,
        "net:v2": second,
        "net:stable": first,
        f"net@sha256:{first['digest'][:12]}": first,
        f"net@sha256:{second['digest']}": second,
        first["id"]: first,
        "a:b:v1": other,
        f"{ID}:v1": odd,
    }.items():
        assert meant(person, ref) == row["id"], ref
        assert meant(server.person(workspace="other"), ref) is None
    for ref in ("net:v3", "net:v0", "net:new", "Net", "n*", "a:b", ID, f"net@sha256:{'0' * 12}", "net:v99999999999"):
        assert meant(person, ref) is None, ref


@pytest.mark.parametrize("ref", ["", "net@sha256:01", "x" * 301])
def test_what_refers_to_nothing(reader: Person, ref: str) -> None:
    assert_problem(reader.get("/models", params={"ref": ref}), 422, 1006)


def test_lists_by_name(person: Person) -> None:
    for name in ("cat-1", "cat-2", "Cat-3", "c%t-1", "dog"):
        push(person, b"one", name=name)

    def named(glob: str) -> list[str]:
        return sorted(item["name"] for item in person.get("/models", params={"name": glob}).json()["items"])

    assert named("cat-*") == ["cat-1", "cat-2"] and named("?at-?") == ["Cat-3", "cat-1", "cat-2"]
    assert named("c%t-*") == ["c%t-1"] and named("dog") == ["dog"] and named("d") == []
    both = person.get("/models", params={"name": "cat-*", "ref": "dog"}).json()
    assert both["items"] == []


@pytest.mark.parametrize("kind", ["models", "datasets", "recipes", "builds"])
def test_a_tag_names_one_version_and_moves(person: Person, kind: str) -> None:
    if kind == "builds":
        first, second = (person.build(recipe={"batch": n}).json() for n in (1, 2))
    elif kind == "recipes":
        first, second = recipe(person, "batch: 1").json(), recipe(person, "batch: 2").json()
    elif kind == "datasets":
        first, second = person.dataset(1), person.dataset(2)
    else:
        first, second = push(person, b"one").json(), push(person, b"two").json()
    name, path = first["name"], f"/{kind}/{first['id']}"
    assert (first["version"], first["tags"], second["version"]) == (1, [], 2)
    assert tag(person, kind, first["id"], "stable").json()["tags"] == ["stable"]
    assert tag(person, kind, first["id"], "Old.1").json()["tags"] == ["Old.1", "stable"]
    assert meant(person, f"{name}:stable", kind) == first["id"]
    assert tag(person, kind, second["id"], "stable").json()["tags"] == ["stable"]
    assert tag(person, kind, second["id"], "stable").status_code == 200
    assert person.get(path).json()["tags"] == ["Old.1"] and meant(person, f"{name}:stable", kind) == second["id"]
    assert_problem(tag(person, kind, first["id"], "stable", "DELETE"), 404, 1005)
    assert tag(person, kind, second["id"], "stable", "DELETE").status_code == 204
    assert meant(person, f"{name}:stable", kind) is None
    entries = person.get("/audit", params={"object_kind": kind[:-1]}).json()["items"]
    changes = [(entry["action"], entry["changes"]) for entry in entries if "tag" in entry["action"]]
    assert changes == [
        (f"{kind[:-1]}.untag", {"stable": {"before": 2, "after": None}}),
        (f"{kind[:-1]}.tag", {"stable": {"before": 1, "after": 2}}),
        (f"{kind[:-1]}.tag", {"Old.1": {"before": None, "after": 1}}),
        (f"{kind[:-1]}.tag", {"stable": {"before": None, "after": 1}}),
    ]


@pytest.mark.parametrize("word", ["v1", "v01", "-x", ".x", "a%20b", "a:b", "a@b", "x" * 65, "%C3%A4", "a%0A"])
def test_words_that_are_no_tags(reader: Person, word: str) -> None:
    assert_problem(tag(reader, "models", reader.model()["id"], word), 422, 1006)


def test_tags_are_the_workspaces_own(server: Server, person: Person) -> None:
    mine, stranger = push(person, b"one").json(), server.person(workspace="other")
    theirs = push(stranger, b"one").json()
    tag(person, "models", mine["id"], "stable")
    assert meant(stranger, "net:stable") is None
    assert_problem(tag(stranger, "models", mine["id"], "stable"), 404, 1005)
    assert_problem(tag(stranger, "models", mine["id"], "stable", "DELETE"), 404, 1005)
    assert tag(stranger, "models", theirs["id"], "stable").status_code == 200
    assert meant(person, "net:stable") == mine["id"]
    assert_problem(tag(server.person(Scope.READ), "models", mine["id"], "x"), 403, 1004)


def test_tags_go_with_their_version(person: Person) -> None:
    row = push(person, b"one").json()
    tag(person, "models", row["id"], "stable")
    assert person.call("DELETE", f"/models/{row['id']}").status_code == 204
    assert meant(person, "net:stable") is None
    again = push(person, b"one").json()
    assert (again["version"], again["tags"]) == (2, [])
    assert tag(person, "models", again["id"], "stable").json()["tags"] == ["stable"]


def test_a_name_has_so_many_tags(person: Person) -> None:
    row = push(person, b"one").json()
    assert {tag(person, "models", row["id"], f"t{n}").status_code for n in range(100)} == {200}
    assert_problem(tag(person, "models", row["id"], "one-more"), 409, 1014)
    assert tag(person, "models", row["id"], "t5").status_code == 200


@pytest.mark.parametrize("_", range(2))
def test_pushes_of_one_name_at_once(person: Person, _: int) -> None:
    digests = [person.upload(b"%d" % n) for n in range(4)]
    bodies = [{"name": "net", "digest": digest} for digest in digests * 2]
    answers = together([partial(person.post, "/models", body) for body in bodies])
    assert codes(answers) == {201: 4, 200: 4}
    assert sorted(item["version"] for item in person.get("/models").json()["items"]) == [1, 2, 3, 4]


@pytest.mark.parametrize("_", range(2))
def test_tags_beside_deletions_and_pushes(person: Person, _: int) -> None:
    first, second = push(person, b"one").json(), push(person, b"two").json()
    tag(person, "models", first["id"], "stable")
    answers = together(
        [
            lambda: person.call("DELETE", f"/models/{first['id']}"),
            *[lambda: tag(person, "models", second["id"], "stable")] * 2,
            *[lambda: tag(person, "models", first["id"], "other")] * 2,
            *[lambda: push(person, b"one")] * 2,
        ]
    )
    assert set(codes(answers)) <= {200, 201, 204, 404}
    assert meant(person, "net:stable") == second["id"]


def test_builds_of_one_name_at_once(person: Person) -> None:
    model = person.model()["id"]
    answers = together([partial(person.build, model_id=model, recipe={"batch": n}) for n in (1, 2, 3, 4)])
    assert sorted(answer.json()["version"] for answer in answers) == [1, 2, 3, 4]


def test_runs_and_builds_say_what_they_are_of(server: Server, person: Person, device: Device) -> None:
    push(person, b"one")
    model, data = push(person, b"two").json(), person.dataset()
    build = server.built(person, model_id=model["id"], name="tiny")
    assert build["model"] == {"id": model["id"], "name": "net", "version": 2}
    assert (build["name"], build["version"], build["model_name"]) == ("tiny", 1, "net")
    other = person.dataset(9, name="holdout")
    run = server.run(person, device, build["id"], dataset_id=data["id"], eval_dataset_id=other["id"]).json()
    assert run["model"] == build["model"] and run["build"] == {"id": build["id"], "name": "tiny", "version": 1}
    assert run["dataset"] == {"id": data["id"], "name": "digits", "version": 1}
    assert run["eval_dataset"] == {"id": other["id"], "name": "holdout", "version": 1}
    assert person.get(f"/runs/{run['id']}").json() == run and person.get("/runs").json()["items"] == [run]
    assert server.run(person, device, build["id"]).json()["eval_dataset"] is None
    assert person.get("/builds?name=ti*").json()["items"] == [build]
    assert meant(person, f"tiny@sha256:{build['artifact_digest'][:12]}", "builds") == build["id"]


def test_what_a_service_of_before_makes_is_numbered(server: Server, person: Person) -> None:
    """While an upgrade goes on, it writes beside us."""
    push(person, b"one")
    with server.services.database.write() as unit:
        for place, name in enumerate(("net", "net", "new")):
            home = unit.session.execute(text("SELECT workspace_id FROM models")).scalars().first()
            unit.session.execute(
                text(
                    "INSERT INTO models (id, workspace_id, created_at, name, digest, size, external) "
                    f"VALUES ('m{place}', :home, '2030-01-01 00:00:00.000000', '{name}', '{'0' * 64}', 5, '{{}}')"
                ),
                {"home": home},
            )
    with server.services.database.read() as session:
        assert session.execute(text("SELECT count(*) FROM models WHERE version = 0")).scalar() == 3
    assert push(person, b"two").json()["version"] == 2
    sweep_all(server.services)
    with server.services.database.read() as session:
        rows = session.execute(text("SELECT id, version FROM models WHERE id LIKE 'm%' ORDER BY id")).all()
    assert [tuple(row) for row in rows] == [("m0", 3), ("m1", 4), ("m2", 1)]
