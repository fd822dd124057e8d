"""`searches`: asked for with files or names, waited for, shown, fetched, cancelled."""

from pathlib import Path

import pytest

from tests.client.cli.conftest import Person, Pock
from tests.server.artifacts import FOUND_FILES


def test_files_are_pushed_and_the_recipe_comes_back(person: Person, tmp_path: Path) -> None:
    output, report = tmp_path / "found.yaml", tmp_path / "why.html"
    order = ("searches", "create", person.model(), "--data", person.dataset(), "--target", "host", "--memory", "64mib")
    more = ("--recipe", person.recipe(), "--eval-data", person.dataset("held", 4), "--confirm", 5)
    rest = ("--try", "--lr-steps", 7, "--power", 5, "--energy", 2, "--channels", "fisher", "--rank", 4, "--rank", 16)
    said = person.pock(*order, *more, *rest, "-o", output, "--report", report)
    assert said.status == 0, said.err
    assert "net:v1" in said.out and "1.0 KB of 2.0 KB" in said.out and "0.5 ms of 1 ms" in said.out
    assert "build net:v1 --recipe net:v1 --target host" in said.err
    assert output.read_bytes() == FOUND_FILES["recipe.yaml"] and report.read_bytes() == FOUND_FILES["report.html"]
    (made,) = person.json("searches", "list", "net")["items"]
    assert (made["memory_bytes"], made["confirm"], made["state"]) == (64 << 20, 5, "succeeded")
    assert (made["lr_steps"], made["watts"], made["joules"], made["channels"]) == (7, 5.0, 2.0, "fisher")
    assert made["ranks"] == [4, 16] and made["tries"]
    assert person.json(*order, *more, *rest)["id"] == made["id"], "the same search is there at once"
    assert (
        person.json("searches", "show", "net")["id"] == made["id"] == person.json("searches", "show", made["id"])["id"]
    )
    again = tmp_path / "again.yaml"
    assert (
        person.pock("searches", "download", made["id"][-8:], "-o", again, "--result", tmp_path / "r.json").status == 0
    )
    assert again.read_bytes() == FOUND_FILES["recipe.yaml"]
    assert (tmp_path / "r.json").read_bytes() == FOUND_FILES["found.json"]


def test_names_are_found_and_failures_end_with_three(person: Person) -> None:
    for file in (person.model(), person.dataset()):
        assert person.pock("push", file).status == 0
    order = ("searches", "create", "net", "--data", "digits", "--target", "host")
    said = person.pock(*order, "--name", "fail")
    assert said.status == 3 and "Operator" in said.err and "\x1b" not in said.err
    slow = person.json(*order, "--name", "slow", "--no-wait")
    assert slow["state"] in ("queued", "running")
    assert "is cancelled" in person.pock("searches", "cancel", "slow").out
    assert person.pock("searches", "download", slow["id"], "-o", "x.yaml").status == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--memory", "much"), "64MiB"),
        (("--memory", "9" * 400), "64MiB"),
        (("--memory", "٣MiB"), "64MiB"),
        (("--power", "many"), "--power"),
        (("--no-wait", "-o", "x.yaml"), "--wait"),
        (("--confirm", "-1"), "--confirm"),
    ],
)
def test_wrong_usage(pock: Pock, words: tuple[str, ...], says: str) -> None:
    said = pock("searches", "create", "net", "--data", "digits", "--target", "host", *words)
    assert said.status == 2 and says in said.err


def test_nothing_is_there(pock: Pock) -> None:
    assert "no searches" in pock("searches", "list").err
    assert "no search is called" in pock("searches", "show", "net").err
    assert pock("searches", "download", "net").status == 2
