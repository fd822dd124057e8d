"""`bench` with its verdicts and baselines, `compare` of benchmarks, `webhooks`."""

import pytest

from pock_client import Client, StateEvent
from pock_client.events import Event
from tests.client.cli.conftest import Person, Pock


def test_a_benchmark_ends_with_a_comparison_and_verdicts(person: Person, pock: Pock) -> None:
    person.built()
    pock("push", person.dataset())
    with person.device("one"), person.device("two", ms=3.0):
        said = pock("bench", "net", "--on", "one")
        assert said.status == 0 and "p10 – p90" in said.out and "one" in said.out
        assert "net on one: 2.01 ms, 95 % within 2 ms – 2.01 ms, stable (benchmark " in said.err
        made = person.json("bench", "net", "--on", "two", "--data", "digits", "--repeats", "3", "--cool-down", "2")
    (benchmark,), (run,) = made["benchmarks"], made["runs"]
    assert (benchmark["steps"], benchmark["repeats_wanted"], benchmark["cool_down_seconds"]) == (50, 3, 2)
    assert benchmark["verdict"]["reasons"] == ["few_repeats"] and run["part_of"] == benchmark["id"]
    assert (run["entry"], run["dataset"]["name"]) == ("bench", "digits")


def test_a_baseline_is_held_against_and_can_fail_the_command(person: Person, pock: Pock) -> None:
    build = person.built()
    bench = ("bench", "net", "--on")
    with person.device("quick"):
        early = pock(*bench, "quick", "--baseline", "net:v1")
        assert early.status == 1 and "'net:v1' has no benchmark on quick yet" in early.err
        first = person.json(*bench, "quick")["benchmarks"][0]
        same = pock(*bench, "quick", "--baseline", "net:v1", "--fail-slower", "5%")
        assert same.status == 0 and "1.000×" in same.out and "same machine" in same.out
    with person.device("slow", ms=2.4):
        slow = pock(*bench, "slow", "--baseline", first["id"], "--fail-slower", "5%")
        assert slow.status == 3 and "net on slow takes 1.20 times as long as its baseline" in slow.err
        assert "1.200×" in slow.out and "0.0006" in slow.out
        assert pock(*bench, "slow", "--baseline", first["id"], "--fail-slower", "0.5").status == 0
    newest = person.json("runs", "--limit", "1")["items"][0]["part_of"]
    beside = person.json("compare", first["id"], newest)["comparisons"]
    assert beside[0]["other_id"] == first["id"] and beside[0]["ratio"] == pytest.approx(1.2)
    assert "1.200×" in pock("compare", first["id"][-8:], newest[-8:]).out
    alone = pock("compare", first["id"])
    assert alone.status == 1 and "one benchmark alone cannot be compared" in alone.err
    assert build["id"] == first["build_id"]


def test_a_program_follows_a_benchmark_by_its_events(person: Person) -> None:
    build = person.built()
    with person.device("one") as device, Client(person.service.url, person.key) as client:
        asked = client.benchmarks.create(build=build["id"], device=device.id, repeats=6)
        seen: list[Event] = []
        over = client.benchmarks.wait(asked.id, seen.append, timeout=60)
    assert over.state == "succeeded" and over.verdict is not None
    states = [one.state for one in seen if isinstance(one, StateEvent)]
    assert (states[0], states[-1], len(states)) == ("queued", "succeeded", len(seen))


def test_a_benchmark_again_and_again(person: Person, pock: Pock) -> None:
    build = person.built()
    pock("push", person.dataset())
    words = ("schedule", "bench", "net", "--on", "name=*", "--cron", "0 3 1 1 *")
    with person.device("one") as one, person.device("two", "raspberry-pi-4"):
        (made,) = person.json(*words, "--data", "digits", "--repeats", "9", "--timezone", "Europe/Berlin")["schedules"]
        wanted = made["what"]["benchmark"]
        assert (made["name"], wanted["build_id"], wanted["device_id"]) == ("net on one", build["id"], one.id)
        assert (wanted["repeats"], wanted["steps"], wanted["cool_down_seconds"]) == (9, 50, 0) and wanted["dataset_id"]
        assert made["next_at"].endswith("-01-01T02:00:00Z") and made["skip_if_running"]
        again = pock(*words, "--name", "nightly", "--no-skip")
        assert again.status == 0 and again.out.startswith("nightly: next "), again.err
        assert "left out two: nothing is built for its target, raspberry-pi-4" in again.err
        pock("build", person.model(), "--recipe", person.recipe(), "--target", "raspberry-pi-4")
        many = pock(*words, "--name", "nightly")
        assert many.status == 2 and "it would be the name of 2 schedules" in many.err
        wrong = pock(*words, "--timezone", "Mars/Olympus")
        assert wrong.status == 1 and wrong.err.count("is no time zone") == 2
        assert pock(*words, "--baseline", "net:v1").status == 1
    listed = pock("schedule", "list").out
    assert listed.count("benchmark") == 2 and "nightly" in listed
    assert "nightly was not due yet" in pock("schedule", "show", "nightly").err


def test_no_waiting_and_wrong_usage(person: Person, pock: Pock) -> None:
    person.built()
    with person.device("idle", stalls=True):
        assert "queued" in pock("bench", "net", "--on", "idle", "--no-wait").out
        for words in (("--fail-slower", "5%"), ("--baseline", "net", "--fail-slower", "much")):
            assert pock("bench", "net", "--on", "idle", *words).status == 2


def test_an_agent_of_before_is_refused(person: Person, pock: Pock) -> None:
    person.built()
    with person.device("old", features=()):
        said = pock("bench", "net", "--on", "old")
    assert said.status == 1 and "which cannot repeat a benchmark with pauses; update it" in said.err


def test_a_device_that_fails_is_3(person: Person, pock: Pock) -> None:
    person.built()
    with person.device("bad", fails=True):
        said = pock("bench", "net", "--on", "bad")
    assert said.status == 3 and "failed: Out of \\x1b[31mmemory. (2003)" in said.err


def test_webhooks_are_added_listed_changed_and_removed(person: Person, pock: Pock) -> None:
    add = ("webhooks", "add", "https://hook.example/in?key=7", "--event", "regression.found", "--event", "run.failed")
    said = pock(*add, "--description", "ops")
    assert said.status == 0 and said.out.startswith("whsec_") and "it is shown this once" in said.err
    assert "https://hook.example/in " in pock("webhooks", "list").out
    (made,) = person.json("webhooks", "list")["items"]
    assert made["events"] == ["regression.found", "run.failed"]
    assert pock("webhooks", "disable", "ops").out == "https://hook.example/in: disabled: Somebody disabled it.\n"
    assert pock("webhooks", "enable", made["id"][-8:]).out == "https://hook.example/in: enabled\n"
    assert person.json("webhooks", "deliveries", "ops") == {"items": []}
    assert pock("webhooks", "remove", "nothing").status == 1
    assert pock("webhooks", "remove", made["id"]).status == 0
    assert "no webhooks" in pock("webhooks", "list").err
    assert pock("webhooks", "add", "https://127.0.0.1/", "--event", "run.failed").status == 1
    assert pock("webhooks", "add", "https://hook.example/", "--event", "dinner").status == 2
