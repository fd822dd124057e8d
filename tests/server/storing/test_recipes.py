"""Recipes as versions of names, and builds that are asked for by them."""

from functools import partial
from typing import Any

import pytest

from tests.server.fleet.test_races import codes, together
from tests.server.harness import Device, Person, Server, assert_problem, digest_of

TEXT = "batch: 2  # as small as it gets\n"
ID = "018f0000-0000-7000-8000-000000000000"


def push(person: Person, text: str = TEXT, name: str = "sparse") -> Any:
    return person.post("/recipes", {"name": name, "text": text})


def test_a_recipe_is_kept_as_it_was_written(server: Server, person: Person) -> None:
    made = push(person)
    assert made.status_code == 201
    row = made.json()
    assert (row["name"], row["version"], row["tags"], row["text"]) == ("sparse", 1, [], TEXT)
    assert row["recipe"] == {"batch": 2} and row["digest"] == digest_of(TEXT.encode())
    again = push(person)
    assert again.status_code == 200 and again.json() == row
    assert push(person, "batch: 2").json()["version"] == 2
    assert person.get(f"/recipes/{row['id']}").json() == row
    (brief,) = person.get("/recipes?ref=sparse:v1").json()["items"]
    assert brief == {name: value for name, value in row.items() if name not in ("text", "recipe")}
    assert_problem(server.person(workspace="other").get(f"/recipes/{row['id']}"), 404, 1005)
    assert server.person(workspace="other").get("/recipes?ref=sparse").json()["items"] == []


@pytest.mark.parametrize("text", ["", "- a", "a: [", "a: &x 1\nb: *x", "1: 2", "a: .nan", "x" * 5000, "a: " + "[" * 40])
def test_what_is_no_recipe_is_not_kept(reader: Person, text: str) -> None:
    assert_problem(push(reader, text, name="bad"), 422, 3003)
    assert reader.get("/recipes?name=bad").json()["items"] == []


def test_a_recipe_has_a_bound(reader: Person) -> None:
    assert_problem(push(reader, "a: " + "x" * 100_000), 422, 1006)
    long = "".join(f"k{n}: '{'ü' * 3000}'\n" for n in range(33))
    assert push(reader, long).status_code in (200, 201)


def test_builds_by_a_recipe_that_is_kept(server: Server, person: Person, device: Device) -> None:
    row, model = push(person).json(), person.model()["id"]
    order = {"model_id": model, "target": "host"}
    build = person.post("/builds", {**order, "recipe_id": row["id"]})
    assert build.status_code == 202
    assert build.json()["recipe"] == {"batch": 2}
    named = {"id": row["id"], "name": "sparse", "version": 1}
    assert build.json()["recipe_version"] == named
    same = person.post("/builds", {**order, "recipe": TEXT})
    assert same.status_code == 200 and same.json()["id"] == build.json()["id"]
    server.finish_build()
    run = server.run(person, device, build.json()["id"]).json()
    assert run["recipe"] == named and person.get("/runs").json()["items"] == [run]
    assert person.post("/builds", {**order, "recipe": "batch: 3"}).json()["recipe_version"] is None
    assert_problem(person.call("DELETE", f"/recipes/{row['id']}"), 409, 1014)


def test_a_build_has_one_recipe(server: Server, person: Person) -> None:
    row, model = push(person).json(), person.model()["id"]
    order = {"model_id": model, "target": "host"}
    assert_problem(person.post("/builds", order), 422, 1006)
    assert_problem(person.post("/builds", {**order, "recipe": TEXT, "recipe_id": row["id"]}), 422, 1006)
    assert_problem(person.post("/builds", {**order, "recipe_id": ID}), 404, 1005)
    foreign = push(server.person(workspace="other")).json()["id"]
    assert_problem(person.post("/builds", {**order, "recipe_id": foreign}), 404, 1005)


def test_a_recipe_without_builds_is_forgotten(person: Person) -> None:
    row = push(person).json()
    person.call("PUT", f"/recipes/{row['id']}/tags/stable")
    assert person.call("DELETE", f"/recipes/{row['id']}").status_code == 204
    assert person.get("/recipes?ref=sparse:stable").json()["items"] == []
    assert push(person).json()["version"] == 2


def test_pushes_and_deletions_beside_builds(person: Person) -> None:
    """No build names a recipe that is gone."""
    model = person.model()["id"]
    row = push(person).json()
    order = {"model_id": model, "target": "host", "recipe_id": row["id"]}
    answers = together(
        [
            *[partial(person.post, "/builds", {**order, "threads": n}) for n in (1, 2, 3)],
            lambda: person.call("DELETE", f"/recipes/{row['id']}"),
            *[partial(push, person, f"batch: {n}") for n in (3, 3, 4)],
        ]
    )
    assert set(codes(answers[4:])) == {200, 201} and set(codes(answers[:3])) <= {202, 404}
    gone = answers[3].status_code == 204
    assert gone == (202 not in codes(answers[:3]))
    kept = sorted(item["version"] for item in person.get("/recipes").json()["items"])
    assert kept == ([2, 3] if gone else [1, 2, 3])
