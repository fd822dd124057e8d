"""Federations, from what is asked for to the last round: devices that fail, lie or are late."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pock_server.federations import aggregating
from pock_server.runs.schemas import RunState
from tests.server.federations.federating import (
    BASE,
    FACTS,
    NAMES,
    Fleet,
    create,
    created,
    shown,
    trainable,
    weights,
)
from tests.server.harness import assert_problem

RUN_CHILD = aggregating._run_child
pytestmark = pytest.mark.in_process("what the leading process does is done here, step by step")


def members(fleet: Fleet, federation_id: str, number: int = 1) -> dict[str, Any]:
    """The devices of a round by their names."""
    items = fleet.person.get(f"/federations/{federation_id}/rounds?after={number - 1}").json()["items"]
    return {member["device_name"]: member for member in items[0]["members"]}


def test_two_rounds(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregating, "_run_child", RUN_CHILD)
    one = created(fleet)
    fleet.here()
    fleet.advance()
    assert shown(fleet, one)["state"] == "training"
    for name, move in zip(NAMES, (1.0, 1.0, 2.0, 4.0), strict=True):
        fleet.train(name, move)
    fleet.advance()
    first = shown(fleet, one)
    assert (first["state"], first["round"], first["epsilon"], first["rejected"]) == ("waiting", 2, None, 0)
    assert fleet.head(first) == [value + 2.0 for value in BASE["head"]]
    assert first["up_bytes"] > 0 and first["down_bytes"] == 0
    told = members(fleet, one)
    assert [told[name]["state"] for name in NAMES] == ["accepted"] * 4
    assert [told[name]["part"] for name in NAMES] == [0.25] * 4 and told["a"]["norm"] == 2.0
    fleet.advance()
    for name in NAMES:
        fleet.train(name, -0.5)
    fleet.advance()
    last = shown(fleet, one)
    assert (last["state"], last["round"], last["finished_at"] is None) == ("succeeded", 2, False)
    assert fleet.head(last) == [value + 1.5 for value in BASE["head"]]
    assert last["down_bytes"] == 4 * first["weights_bytes"] and last["full_bytes"] == 16 * last["full_weights_bytes"]
    rounds = fleet.person.get(f"/federations/{one}/rounds").json()["items"]
    assert [(item["number"], item["loss"], item["step_norm"]) for item in rounds] == [(1, 0.5, 4.0), (2, 0.5, 1.0)]


def test_what_one_device_sent_is_gone_once_it_is_aggregated(fleet: Fleet) -> None:
    one = created(fleet, rounds=1)
    fleet.here()
    fleet.advance()
    for name in NAMES:
        fleet.train(name)
    found = fleet.person.get(f"/runs?part_of={one}").json()["items"]
    federation = {"kind": "federation", "id": one, "name": shown(fleet, one)["name"]}
    assert all(run["longer_work"] == federation for run in found)
    runs = [run["id"] for run in found]
    assert len(runs) == 4 and all(fleet.person.get(f"/runs/{run}").json()["weights_digest"] for run in runs)
    fleet.advance()
    assert [fleet.person.get(f"/runs/{run}").json()["weights_digest"] for run in runs] == [None] * 4


def test_a_round_waits_for_its_devices_and_fails_without_them(fleet: Fleet) -> None:
    one = created(fleet, round_deadline_seconds=100)
    fleet.server.clock.advance(90)  # all devices are offline by now
    fleet.advance()
    assert shown(fleet, one)["state"] == "waiting"
    fleet.server.clock.advance(20)
    fleet.advance()
    failed = shown(fleet, one)
    assert failed["state"] == "failed"
    assert "Only 0 devices" in failed["failure"]["detail"] and "2 must" in failed["failure"]["detail"]


def test_devices_that_fail_or_are_late_are_left_out(fleet: Fleet) -> None:
    one = created(fleet, rounds=1, round_deadline_seconds=100)
    fleet.here()
    fleet.advance()
    fleet.train("a", 1.0)
    fleet.train("b", 3.0)
    fleet.train("c", None)
    fleet.advance()
    assert shown(fleet, one)["state"] == "training"
    assert members(fleet, one)["c"]["state"] == "failed" and members(fleet, one)["d"]["state"] == "training"
    fleet.server.clock.advance(101)
    fleet.advance()
    assert shown(fleet, one)["state"] == "succeeded"
    assert fleet.head(shown(fleet, one)) == [value + 2.0 for value in BASE["head"]]
    told = members(fleet, one)
    assert [told[name]["state"] for name in NAMES] == ["accepted", "accepted", "failed", "late"]
    assert told["c"]["reason"] == "Out of memory."
    run = fleet.person.get(f"/runs/{told['d']['run_id']}").json()
    assert run["state"] == RunState.CANCELLED


def test_too_few_that_answer_end_it(fleet: Fleet) -> None:
    one = created(fleet, minimum=4)
    fleet.here()
    fleet.advance()
    for name in NAMES:
        fleet.train(name, None if name == "b" else 1.0)
    fleet.advance()
    failed = shown(fleet, one)
    assert failed["state"] == "failed"
    assert failed["failure"]["detail"] == "Only 3 of 4 devices answered in round 1, and 4 must: Out of memory."


def test_nonsense_is_rejected_counted_and_shown(fleet: Fleet) -> None:
    one = created(fleet, rounds=1)
    fleet.here()
    fleet.advance()
    fleet.train("a", 1.0)
    fleet.train("b", float("nan"))
    fleet.train("c", b"no weights at all")
    fleet.train("d", weights({"head": [1.0]}))
    fleet.advance()
    failed = shown(fleet, one)
    assert (failed["state"], failed["rejected"]) == ("failed", 3)
    assert "Only 1 contributions to round 1 count, and 2 must" in failed["failure"]["detail"]
    told = members(fleet, one)
    assert [told[name]["state"] for name in NAMES] == ["accepted", "rejected", "rejected", "rejected"]
    assert "not finite" in told["b"]["reason"] and "header" in told["c"]["reason"]
    assert "another shape" in told["d"]["reason"]


def test_a_far_longer_update_is_rejected(fleet: Fleet) -> None:
    one = created(fleet, rounds=1)
    fleet.here()
    fleet.advance()
    for name in NAMES:
        fleet.train(name, 1000.0 if name == "d" else 1.0)
    fleet.advance()
    assert shown(fleet, one)["state"] == "succeeded"
    assert fleet.head(shown(fleet, one)) == [value + 1.0 for value in BASE["head"]]
    assert "1e+03 times as long" in members(fleet, one)["d"]["reason"]


def test_the_same_seed_chooses_the_same_devices(fleet: Fleet) -> None:
    build_id = trainable(fleet.server, fleet.person)

    def chosen(seed: int) -> list[set[str]]:
        found: list[set[str]] = []
        one = created(fleet, build_id=build_id, devices_per_round=2, rounds=3, seed=seed)
        for number in (1, 2, 3):
            fleet.here()
            fleet.advance()
            found.append(set(members(fleet, one, number)))
            for name in found[-1]:
                fleet.train(name)
            fleet.advance()
        return found

    first, again, other = chosen(1), chosen(1), chosen(2)
    assert first == again and all(len(names) == 2 for names in first)
    assert first != other and len({*map(frozenset, first)}) > 1


def test_noise_states_the_privacy_that_is_spent(fleet: Fleet) -> None:
    one = created(fleet, clip_norm=1.0, noise_multiplier=1.0, delta=1e-5)
    seen = []
    for _ in range(2):
        fleet.here()
        fleet.advance()
        for name in NAMES:
            fleet.train(name)
        fleet.advance()
        seen.append(shown(fleet, one)["epsilon"])
    assert seen[0] == pytest.approx(4.377178, abs=1e-5) and seen[1] > seen[0]
    assert "noise_key" not in str(shown(fleet, one))


def test_epochs_make_steps_of_samples(fleet: Fleet) -> None:
    one = created(fleet, steps=None, epochs=1.5)
    fleet.here()
    fleet.advance()
    runs = fleet.person.get(f"/runs?part_of={one}").json()["items"]
    assert [run["steps"] for run in runs] == [6] * 4  # 1.5 times 8 samples in batches of 2
    assert len({run["seed"] for run in runs}) == 4


def test_named_datasets_choose_who_takes_part(fleet: Fleet) -> None:
    data = fleet.person.get("/datasets?name=digits-*").json()["items"][0]["id"]
    mine = {fleet.devices[name].id: data for name in ("a", "c")}
    one = created(fleet, dataset=None, datasets=mine)
    fleet.here()
    fleet.advance()
    assert set(members(fleet, one)) == {"a", "c"}


def test_agents_of_before_and_other_targets_take_no_part(fleet: Fleet) -> None:
    for facts in ({"target": "host"}, {**FACTS, "target": "raspberry-pi-4"}):
        fleet.server.device(fleet.person, facts)
    one = created(fleet, dataset="digits-a", devices_per_round=6)
    fleet.here()
    fleet.advance()
    assert set(members(fleet, one)) == set(NAMES)


@pytest.mark.parametrize(
    "changes",
    [
        {"minimum": 5},
        {"epochs": 1.0},
        {"steps": None},
        {"dataset": None},
        {"datasets": {"01900000-0000-7000-8000-000000000001": "01900000-0000-7000-8000-000000000001"}},
        {"noise_multiplier": 1.0},
        {"noise_multiplier": 1.0, "clip_norm": 1.0, "aggregation": "median"},
        {"aggregation": "sum"},
        {"delta": 0},
        {"on": "ram>"},
        {"weights_of": "nonsense"},
    ],
)
def test_orders_that_make_no_sense(fleet: Fleet, changes: dict[str, Any]) -> None:
    assert_problem(create(fleet, **changes), 422, 1006)


def test_builds_that_cannot_be_trained(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    queued = fleet.person.build(recipe={"batch": 64}).json()["id"]
    assert_problem(create(fleet, build_id=queued), 409, 1014)
    fleet.server.finish_build()
    answer = create(fleet, build_id=queued)
    assert_problem(answer, 409, 1014)
    assert "trains nothing" in answer.json()["detail"]
    build_id = trainable(fleet.server, fleet.person)
    monkeypatch.setattr("pock_server.federations.service.find_spec", lambda name: None)
    answer = create(fleet, build_id=build_id)
    assert_problem(answer, 409, 1014)
    assert "pip install 'pock-server[federation]'" in answer.json()["detail"]


def test_a_federation_is_cancelled_with_its_runs_and_deleted(fleet: Fleet) -> None:
    one = created(fleet)
    fleet.here()
    fleet.advance()
    fleet.train("a")
    build = shown(fleet, one)["build_id"]
    assert_problem(fleet.person.call("DELETE", f"/federations/{one}"), 409, 1014)
    for _ in range(2):
        assert fleet.person.post(f"/federations/{one}/cancel").json()["state"] == "cancelled"
    runs = fleet.person.get(f"/runs?part_of={one}").json()["items"]
    assert sorted(run["state"] for run in runs) == ["cancelled"] * 3 + ["succeeded"]
    assert all(run["weights_digest"] is None for run in runs)
    for run in runs:
        fleet.person.call("DELETE", f"/runs/{run['id']}")
    assert_problem(fleet.person.call("DELETE", f"/builds/{build}"), 409, 1014)
    assert fleet.person.call("DELETE", f"/federations/{one}").status_code == 204
    assert_problem(fleet.person.get(f"/federations/{one}"), 404, 1005)
    assert fleet.person.call("DELETE", f"/builds/{build}").status_code == 204


def test_an_aggregation_that_fails_is_tried_again_and_then_given_up(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = created(fleet)
    fleet.here()
    fleet.advance()
    for name in NAMES:
        fleet.train(name)
    monkeypatch.setattr(aggregating, "_run_child", lambda folder, seconds: "it was unlucky")
    for _ in range(2):
        fleet.advance()
        assert shown(fleet, one)["state"] == "aggregating"
    fleet.advance()
    failed = shown(fleet, one)
    assert failed["state"] == "failed" and "3 times: it was unlucky" in failed["failure"]["detail"]


def test_one_process_aggregates_a_round_once(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = [], threading.Event()

    def slow(*wanted: str) -> None:
        begun.append(wanted)
        release.wait(10)

    monkeypatch.setattr(aggregating, "aggregate", slow)
    start: Callable[..., None] = aggregating.in_background
    for _ in range(3):
        start(fleet.server.services, "workspace", "federation")
    release.set()
    for thread in threading.enumerate():
        if getattr(thread, "_target", None) is aggregating._in_turn:
            thread.join(10)
    assert len(begun) == 1
    assert "federation" not in aggregating._begun


def test_a_federation_goes_on_from_another_ones_weights(fleet: Fleet) -> None:
    one = created(fleet, rounds=1)
    fleet.here()
    fleet.advance()
    for name in NAMES:
        fleet.train(name, 1.0)
    fleet.advance()
    first = shown(fleet, one)
    two = created(fleet, build_id=first["build_id"], rounds=1, weights_of=first["weights_digest"])
    fleet.advance()
    for name in NAMES:
        fleet.train(name, 2.0)
    fleet.advance()
    assert fleet.head(shown(fleet, two)) == [value + 3.0 for value in BASE["head"]]
