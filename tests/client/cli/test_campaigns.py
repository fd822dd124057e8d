"""`campaign`, `devices label` and `move`, `tag`: against a service that listens, and devices that train nothing."""

import contextlib
import json

import pytest

from pock_client.cli import completing
from tests.client.cli.conftest import Person, Pock

FILE = """
name: sweep
builds: net
on: "desk*"
dataset: digits
steps: 2
seeds: [1, 2]
canary: {devices: 1}
stop: {failed_share: 0.5}
"""


def test_a_campaign_from_a_file_and_from_options(person: Person, pock: Pock) -> None:
    person.built()
    pock("push", person.dataset())
    file = person.folder / "sweep.yaml"
    file.write_text(FILE)
    with person.device("desk 1", ms=2.0), person.device("desk 2", ms=4.0):
        said = pock("campaign", "create", file)
        assert said.status == 0, said.err
        assert "sweep: succeeded" in said.err
        (row,) = said.out.splitlines()[1:]
        assert row.split()[:5] == ["net:v1", "host", "all", "4/4", "–"] and "3 ±33%" in row
        options = ("--name", "once", "--seeds", "7", "--canary", "2", "--canary-wait", "1", "--retry", "crashed=1")
        made = person.json("campaign", "create", file, *options)
        few = person.json("campaign", "create", file, "--name", "few", "--device", "desk 2", "--canary", "1")
    assert made["campaign"]["name"] == "once" and made["campaign"]["cells"]["succeeded"] == 2
    order = made["campaign"]["order"]
    assert order["seeds"] == [7] and order["canary"] == {"devices": 2, "wait_seconds": 1}
    assert order["retries"] == {"crashed": 1} and order["stop"]["failed_share"] == 0.5
    assert [row["build"] for row in made["results"]["rows"]] == ["net:v1"]
    assert few["campaign"]["cells"]["total"] == 2 and len(few["results"]["rows"]) == 1
    by_device = person.json("campaign", "results", "sweep", "--by-device")["rows"]
    assert [(row["device_name"], row["step_ms"]["median"]) for row in by_device] == [("desk 1", 2.0), ("desk 2", 4.0)]
    lines = pock("campaign", "results", "sweep", "--csv").out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("build_id,build,target,")
    assert [one["name"] for one in person.json("campaign", "list")["items"]] == ["few", "once", "sweep"]
    assert "4/4" in pock("campaign", "list", "sw*").out and "succeeded" in pock("campaign", "show", "sweep").out


def test_a_campaign_is_paused_and_ended(person: Person, pock: Pock) -> None:
    recipe = person.recipe("batch: 4\n")
    pock("push", person.dataset())
    order = ("--model", person.model("slow net"), "--recipe", recipe, "--target", "host", "--target", "raspberry-pi-4")
    with person.device("desk", stalls=True):
        where = ("--on", "*", "--data", "digits", "--steps", "2", "--no-wait")
        said = pock("campaign", "create", "--name", "long", *order, *where)
        assert said.status == 0 and "no device that was chosen is of target raspberry-pi-4" in said.err
        assert person.json("campaign", "show", "long")["campaign"]["cells"]["pending"] == 1
        assert pock("campaign", "pause", "long").out == "long: paused\n"
        assert pock("campaign", "resume", "long").out == "long: running\n"
        said = pock("campaign", "show", "long", "--wait", "--timeout", "0.2")
        assert said.status == 5 and "pock-client campaign show" in said.err
        assert person.json("campaign", "cancel", "long")["state"] == "cancelled"
    assert pock("campaign", "show", "long", "--wait").status == 3
    pock("cancel", "*", "--yes")


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        ("- 1", 1, "has no keys"),
        ("a: [", 1, "is no YAML"),
        ("colour: red", 1, "a campaign has no colour; it has builds, canary"),
        ("name: x", 1, "a campaign needs on and steps"),
        (
            "{name: x, on: '*', steps: 1, canary: 5}",
            1,
            "a mapping of devices, wait_seconds, such as canary: {",
        ),
        ("{name: x, on: '*', steps: 1, stop: {at: 5}}", 1, "stop of a campaign is a mapping of failed, failed_share"),
        ("{name: x, on: '*', steps: 1, held_out: {1: 2}}", 1, "held_out of a campaign is a mapping of every, patience"),
        ("{name: x, on: '*', steps: 1, held_out: {seed: 2}}", 1, "such as held_out: {share: 0.2, patience: 3}"),
        ("{name: x, on: '*', steps: 1, builds: nothing}", 1, "no build is called 'nothing'"),
        (" " * 70_000, 1, "is longer than"),
    ],
)
def test_files_that_are_no_campaign(person: Person, pock: Pock, text: str, status: int, sentence: str) -> None:
    file = person.folder / "order.yaml"
    file.write_text(text)
    said = pock("campaign", "create", file)
    assert said.status == status and sentence in said.err


def test_devices_are_labelled_and_moved(person: Person, pock: Pock) -> None:
    with contextlib.ExitStack() as stack:
        for name in ("pi 1", "pi 2"):
            stack.enter_context(person.device(name))
        assert pock("devices", "label", "pi 1", "room=attic", "floor=2").out == "pi 1: floor=2, room=attic\n"
        assert pock("devices", "label", "pi 1", "floor-").out == "pi 1: room=attic\n"
        assert pock("devices", "label", "pi*", "old=yes", say="n\n").status == 130
        both = person.json("devices", "label", "pi*", "old=yes", "--yes")["items"]
        assert sorted(one["labels"]["old"] for one in both) == ["yes", "yes"]
        assert pock("devices", "move", "room=attic", "--pool", "kitchen").out == "pi 1: pool kitchen\n"
        said = pock("devices", "label", "nobody", "a=b")
        assert said.status == 1 and "no device matches 'nobody'" in said.err
        assert pock("devices", "label", "pi 1", "a").status == 2


def test_versions_are_tagged(person: Person, pock: Pock) -> None:
    pock("push", person.model("net"), person.dataset("net"))
    said = pock("tag", "net", "stable")
    assert said.status == 1 and "'net' is the name of a model and a dataset; say with --as" in said.err
    assert pock("tag", "net", "stable", "--as", "model").out == "net:v1: stable\n"
    assert person.json("models")["items"][0]["tags"] == ["stable"]
    assert pock("untag", "net:stable", "stable").out == "net:v1: no tags\n"
    assert "there is no model, dataset, recipe or build 'other'" in pock("tag", "other", "stable").err


def completed(pock: Pock, *words: str) -> set[str]:
    """What the shell is told that the last word could be."""
    script = {"_POCK_CLIENT_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("pock-client", *words))}
    return set(pock(**script, COMP_CWORD=str(len(words))).out.split())


def test_names_are_completed_by_the_service_or_not_at_all(person: Person, pock: Pock, monkeypatch) -> None:
    pock("push", person.dataset("digits"), person.dataset("dogs"), person.dataset("\x1b[31mred"))
    assert sorted(completing.datasets("d")) == sorted(completing.datasets("")) == ["digits", "dogs"]
    words = "pock-client bench net --data di"
    script = {"_POCK_CLIENT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"}
    assert "digits" in pock(**script).out
    person.built("dinet")
    for *typed, found in (
        ("logs", {"dinet"}),
        ("cancel", {"dinet"}),
        ("compare", {"dinet"}),
        ("download", {"dinet", "digits"}),
        ("tag", {"dinet", "digits"}),
        ("federate", "create", {"dinet"}),
        ("schedule", "bench", {"dinet"}),
        ("campaign", "create", "--name", "x", "--build", {"dinet"}),
    ):
        assert completed(pock, *typed, "di") == found, typed
    with person.device("disk"):
        assert completed(pock, "campaign", "create", "--on", "di") == {"disk"}
        file = person.folder / "sweep.yaml"
        file.write_text("{name: dive, builds: dinet, on: '*', dataset: digits, steps: 1}")
        assert pock("schedule", "create", file, "--cron", "0 3 1 1 *").status == 0
        assert pock("campaign", "create", file, "--no-wait").status == 0
    for command in ("schedule show", "schedule delete", "campaign results", "campaign cancel"):
        assert completed(pock, *command.split(), "di") == {"dive"}, command
    assert completed(pock, "federate", "show", "di") == set()
    monkeypatch.setenv("POCK_URL", "http://127.0.0.1:1")
    assert completing.datasets("d") == []
    monkeypatch.delenv("POCK_URL")
    monkeypatch.delenv("POCK_KEY")
    assert completing.datasets("d") == []


def test_json_has_nothing_beside_it(person: Person, pock: Pock) -> None:
    assert json.loads(pock("campaign", "list", "--json").out) == {"items": []}


def test_a_campaign_again_and_again(person: Person, pock: Pock) -> None:
    person.built()
    pock("push", person.dataset())
    file = person.folder / "sweep.yaml"
    file.write_text(FILE)
    made = person.json("schedule", "create", file, "--cron", "0 3 1 1 *", "--timezone", "Europe/Berlin")
    assert made["name"] == "sweep" and made["what"]["campaign"]["seeds"] == [1, 2] and made["next_at"]
    assert [one["cron"] for one in person.json("schedule", "list")["items"]] == ["0 3 1 1 *"]
    assert "sweep was not due yet" in pock("schedule", "show", "sweep").err
    assert pock("schedule", "pause", "sweep").out == "sweep: next paused\n"
    assert pock("schedule", "resume", "sweep").out.endswith("-01-01 02:00 UTC\n")
    assert pock("schedule", "delete", "sweep").out == "sweep: deleted\n"
    assert pock("schedule", "show", "sweep").status == 1
