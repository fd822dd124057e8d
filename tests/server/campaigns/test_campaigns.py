"""Campaigns: what they expand to, in which order they ask for runs, and when they stop."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text

from pock_server.campaigns.lifecycle import CAMPAIGN_LIFECYCLE
from pock_server.campaigns.schemas import CampaignState
from pock_server.runner.claims import Broken
from pock_server.runner.sweeper import sweep_all
from tests.server.campaigns.fleet import board, boards, cells, get, go_on, start, started, to_the_end, work
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem, sse

UNKNOWN = "018f0000-0000-7000-8000-000000000000"


def test_a_campaign_runs_each_build_on_each_device_of_its_target_with_each_seed(server: Server, person: Person) -> None:
    devices = [*boards(server, person, 2), board(server, person, "pi", "raspberry-pi-4")]
    builds = [server.built(person)["id"], server.built(person, target="raspberry-pi-4")["id"]]
    made = start(server, person, build_ids=builds, seeds=[7, 8], name="both").json()
    assert made["state"] == "running" and made["cells"]["total"] == made["cells"]["pending"] == 6
    done = to_the_end(server, person, made["id"], devices)
    assert done["state"] == "succeeded" and done["cells"]["succeeded"] == 6 and done["failure"] is None
    found = cells(person, made["id"])
    assert [cell["number"] for cell in found] == list(range(6))
    pairs = Counter((cell["build_id"], cell["device_name"], cell["seed"]) for cell in found)
    expected = [(builds[0], name, seed) for name in ("host 0", "host 1") for seed in (7, 8)]
    assert pairs == Counter([*expected, (builds[1], "pi", 7), (builds[1], "pi", 8)])
    runs = person.get(f"/runs?part_of={made['id']}").json()["items"]
    assert {run["id"] for run in runs} == {cell["run_id"] for cell in found} and len(runs) == 6
    assert all(run["longer_work"] == {"kind": "campaign", "id": made["id"], "name": "both"} for run in runs)
    assert all((run["device_id"], run["seed"]) in {(c["device_id"], c["seed"]) for c in found} for run in runs)
    events = sse(person.get(f"/campaigns/{made['id']}/events").text)
    assert [data["state"] for _, kind, data in events if kind == "state"] == ["running", "succeeded"]
    fractions = [data["fraction"] for _, kind, data in events if kind == "progress"]
    assert fractions[0] == 0 and fractions[-1] == 1 and fractions == sorted(fractions)


def test_of_the_devices_that_are_selected_only_those_listed_take_part(server: Server, person: Person) -> None:
    first, second, _ = boards(server, person, 3)
    builds = [server.built(person)["id"]]
    campaign = started(server, person, build_ids=builds, device_ids=[second.id, first.id])
    assert {cell["device_id"] for cell in cells(person, campaign)} == {first.id, second.id}
    assert get(person, campaign)["order"]["device_ids"] == [second.id, first.id]
    assert person.call("DELETE", f"/devices/{second.id}").status_code == 204
    for ids, on in (([second.id], "*"), ([first.id, first.id], "*"), (["host 0"], "*"), ([first.id], "elsewhere-*")):
        refused = start(server, person, build_ids=builds, device_ids=ids, on=on)
        assert refused.status_code == 422 and "device_ids" in refused.json()["detail"], refused.text


def test_one_run_a_device_and_so_many_at_once(server: Server, person: Person) -> None:
    devices = boards(server, person, 3)
    campaign = started(server, person, seeds=[1, 2], parallelism=2)
    for _ in range(3):
        go_on(server)
    running = [cell for cell in cells(person, campaign) if cell["state"] == "running"]
    assert len(running) == 2 and len({cell["device_id"] for cell in running}) == 2
    assert to_the_end(server, person, campaign, devices)["state"] == "succeeded"
    free = started(server, person, seeds=[1, 2, 3], per_device=2, build_ids=[cells(person, campaign)[0]["build_id"]])
    go_on(server)
    assert Counter(cell["device_id"] for cell in cells(person, free) if cell["state"] == "running") == {
        device.id: 2 for device in devices
    }


def test_builds_are_made_for_a_campaign_and_waited_for(server: Server, person: Person) -> None:
    devices = boards(server, person, 1)
    recipes = [person.post("/recipes", {"name": "r", "text": f"batch: {size}"}).json()["id"] for size in (2, 4)]
    campaign = started(
        server, person, model_id=person.model()["id"], recipe_ids=recipes, targets=["host", "raspberry-pi-4"]
    )
    shown = get(person, campaign)
    assert len(shown["build_ids"]) == 4 and shown["missing_targets"] == ["raspberry-pi-4"]
    go_on(server)
    assert get(person, campaign)["cells"]["pending"] == 2
    for _ in range(4):
        server.finish_build()
    done = to_the_end(server, person, campaign, devices)
    assert done["state"] == "succeeded" and done["cells"]["succeeded"] == 2


def test_a_build_that_fails_skips_its_cells(server: Server, person: Person) -> None:
    devices = boards(server, person, 2)
    good = server.built(person)["id"]
    bad = person.build(recipe={"batch": 4}).json()["id"]
    campaign = started(server, person, build_ids=[good, bad])
    server.finish_build(Broken(3002, "Gelu is not supported."))
    done = to_the_end(server, person, campaign, devices)
    assert done["state"] == "succeeded"
    skipped = [cell for cell in cells(person, campaign) if cell["state"] == "skipped"]
    assert [cell["build_id"] for cell in skipped] == [bad, bad]
    assert skipped[0]["failure"] == {"code": 2006, "detail": "Its build failed: Gelu is not supported."}


def test_what_fits_nothing_says_which_targets_are_missing(server: Server, person: Person) -> None:
    boards(server, person, 2)
    build = server.built(person, target="raspberry-pi-4")["id"]
    refused = start(server, person, build_ids=[build])
    assert_problem(refused, 422, 1006)
    detail = refused.json()["detail"]
    assert "(raspberry-pi-4)" in detail and "host (2)" in detail
    nobody = start(server, person, build_ids=[build], on="pool=nowhere")
    assert "no device is chosen by 'pool=nowhere'; the builds are for raspberry-pi-4" in nobody.json()["detail"]
    bad = start(server, person, build_ids=[build], on="ram>=lots")
    assert_problem(bad, 422, 1006)
    assert bad.json()["detail"].startswith("body.on: ")


@pytest.mark.parametrize(
    "changes",
    [
        {"build_ids": []},
        {"build_ids": [UNKNOWN], "model_id": UNKNOWN},
        {"model_id": UNKNOWN, "targets": ["host"]},
        {"build_ids": [UNKNOWN, UNKNOWN]},
        {"build_ids": [UNKNOWN], "seeds": [1, 1]},
        {"build_ids": [UNKNOWN], "seeds": []},
        {"build_ids": [UNKNOWN], "dataset_id": None},
        {"build_ids": [UNKNOWN], "stop": {}},
        {"build_ids": [UNKNOWN], "stop": {"failed_share": 1.5}},
        {"build_ids": [UNKNOWN], "canary": {"devices": 0}},
        {"build_ids": [UNKNOWN], "parallelism": 0},
    ],
)
def test_no_other_campaigns(server: Server, person: Person, changes: dict[str, Any]) -> None:
    assert_problem(start(server, person, **changes), 422, 1006)


def test_what_it_is_of_has_to_be_there(server: Server, person: Person) -> None:
    boards(server, person, 1)
    assert_problem(start(server, person, build_ids=[UNKNOWN]), 404, 1005)
    foreign = server.built(server.person(workspace="others"))["id"]
    assert_problem(start(server, person, build_ids=[foreign]), 404, 1005)
    assert_problem(start(server, person, dataset_id=UNKNOWN), 404, 1005)
    assert person.get("/campaigns").json()["items"] == []


def test_a_campaign_is_bounded(server: Server, person: Person) -> None:
    boards(server, person, 6)
    refused = start(server, person, seeds=list(range(1000)))
    assert_problem(refused, 422, 1006)
    assert "This would be 6000 runs; a campaign has 5000 at most" in refused.json()["detail"]


def test_open_campaigns_are_a_quota(start_server: ServerFactory) -> None:
    server = start_server(quota_open_campaigns=1)
    person = server.person()
    boards(server, person, 1)
    first = started(server, person)
    build = get(person, first)["build_ids"]
    assert_problem(start(server, person, build_ids=build), 409, 1061)
    person.post(f"/campaigns/{first}/cancel")
    go_on(server)
    assert start(server, person, build_ids=build).status_code == 202


def test_canaries_go_first_one_of_each_target_and_the_others_after_a_while(server: Server, person: Person) -> None:
    devices = [*boards(server, person, 2), board(server, person, "pi", "raspberry-pi-4")]
    builds = [server.built(person)["id"], server.built(person, target="raspberry-pi-4")["id"]]
    canary = {"devices": 2, "wait_seconds": 60}
    campaign = started(server, person, build_ids=builds, seeds=[1, 2], canary=canary)
    assert [cell["device_name"] for cell in cells(person, campaign) if cell["canary"]] == ["host 0", "pi"] * 2
    for _ in range(4):
        go_on(server)
        assert not work(devices[1])
        work(devices[0])
        work(devices[2])
    shown = get(person, campaign)
    assert shown["cells"]["succeeded"] == 4 and shown["canary_ended_at"] is not None
    server.clock.advance(59)
    go_on(server)
    assert not work(devices[1])
    server.clock.advance(2)
    assert to_the_end(server, person, campaign, devices)["state"] == "succeeded"


def test_a_canary_that_fails_ends_the_campaign(server: Server, person: Person) -> None:
    devices = boards(server, person, 3)
    campaign = started(server, person, canary={"devices": 1})
    go_on(server)
    work(devices[0], code=2001)
    done = to_the_end(server, person, campaign, devices)
    assert done["state"] == "failed" and done["failure"]["detail"].endswith("1 of the canaries' cells was failed.")
    assert Counter(cell["state"] for cell in cells(person, campaign)) == {"failed": 1, "skipped": 2}
    assert len(person.get(f"/runs?part_of={campaign}").json()["items"]) == 1


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"failed": 2}, "2 cells failed; it stops at 2."),
        ({"failed_share": 0.25}, "2 of 4 cells failed; it stops above 25%."),
    ],
)
def test_too_many_failures_end_the_campaign_and_its_runs(
    server: Server, person: Person, rule: dict[str, Any], sentence: str
) -> None:
    devices = boards(server, person, 4)
    campaign = started(server, person, stop=rule)
    go_on(server)
    work(devices[0], code=2001)
    go_on(server)
    assert get(person, campaign)["state"] == "running"
    work(devices[1], code=2003)
    go_on(server)
    done = get(person, campaign)
    assert done["state"] == "failed" and done["failure"]["detail"].endswith(sentence)
    assert Counter(cell["state"] for cell in cells(person, campaign)) == {"failed": 2, "cancelled": 2}
    (row,) = person.get(f"/campaigns/{campaign}/results").json()["rows"]
    assert row["failures"] == {"crashed": 1, "out_of_memory": 1} and row["step_ms"] is None


def test_a_campaign_without_a_success_failed(server: Server, person: Person) -> None:
    devices = boards(server, person, 1)
    campaign = started(server, person)
    go_on(server)
    work(devices[0], code=2001)
    go_on(server)
    assert get(person, campaign)["state"] == "failed"


def test_retries_are_of_the_same_cell(server: Server, person: Person) -> None:
    devices = boards(server, person, 1)
    campaign = started(server, person, retries={"crashed": 1}, retry_delay_seconds=0)
    go_on(server)
    work(devices[0], code=2001)
    done = to_the_end(server, person, campaign, devices)
    assert done["state"] == "succeeded" and done["cells"]["succeeded"] == done["cells"]["total"] == 1
    runs = person.get(f"/runs?part_of={campaign}").json()["items"]
    assert [run["state"] for run in runs] == ["succeeded", "failed"]
    assert cells(person, campaign)[0]["run_id"] == runs[0]["id"]


def test_the_deadline_ends_it(server: Server, person: Person) -> None:
    boards(server, person, 2)
    campaign = started(server, person, deadline_seconds=100, parallelism=1)
    go_on(server)
    server.clock.advance(101)
    go_on(server)
    done = get(person, campaign)
    assert done["state"] == "failed" and done["failure"] == {"code": 10001, "detail": "Its deadline of 100 s is over."}
    assert Counter(cell["state"] for cell in cells(person, campaign)) == {"cancelled": 1, "skipped": 1}


def test_pause_resume_cancel_delete(server: Server, person: Person) -> None:
    devices = boards(server, person, 2)
    campaign = started(server, person, parallelism=1, seeds=[1, 2])
    go_on(server)
    for _ in range(2):
        assert person.post(f"/campaigns/{campaign}/pause").json()["state"] == "paused"
    assert work(devices[0])
    go_on(server)
    assert not any(work(device) for device in devices)
    assert get(person, campaign)["cells"]["succeeded"] == 1
    assert person.post(f"/campaigns/{campaign}/resume").json()["state"] == "running"
    go_on(server)
    assert_problem(person.call("DELETE", f"/campaigns/{campaign}"), 409, 1014)
    assert person.post(f"/campaigns/{campaign}/cancel").json()["state"] == "stopping"
    again = person.post(f"/campaigns/{campaign}/cancel").json()["state"]
    assert again in ("stopping", "cancelled")  # the service's own duties may have ended it by now
    go_on(server)
    assert person.post(f"/campaigns/{campaign}/cancel").json()["state"] == "cancelled"
    assert_problem(person.post(f"/campaigns/{campaign}/resume"), 409, 1014)
    assert Counter(cell["state"] for cell in cells(person, campaign)) == {"succeeded": 1, "cancelled": 1, "skipped": 2}
    run_id = cells(person, campaign)[0]["run_id"]
    assert person.call("DELETE", f"/campaigns/{campaign}").status_code == 204
    assert_problem(person.get(f"/campaigns/{campaign}"), 404, 1005)
    run = person.get(f"/runs/{run_id}").json()
    assert (run["state"], run["part_of"], run["longer_work"]) == ("succeeded", campaign, None)


def test_a_device_that_goes_and_a_run_that_is_deleted_have_an_outcome(server: Server, person: Person) -> None:
    devices = boards(server, person, 3)
    campaign = started(server, person, seeds=[1, 2])
    person.call("DELETE", f"/devices/{devices[2].id}")
    go_on(server)
    first = next(cell for cell in cells(person, campaign) if cell["device_id"] == devices[0].id)
    person.post(f"/runs/{first['run_id']}/cancel")
    person.call("DELETE", f"/runs/{first['run_id']}")
    to_the_end(server, person, campaign, devices[:2])
    found = {(cell["device_name"], cell["seed"]): cell for cell in cells(person, campaign)}
    assert found["host 0", 1]["state"] == "cancelled"
    assert found["host 2", 1]["state"] == found["host 2", 2]["state"] == "skipped"
    assert "revoked" in found["host 2", 1]["failure"]["detail"]
    assert get(person, campaign)["state"] == "succeeded"


def test_tables_are_closed() -> None:
    reached = {state for following in CAMPAIGN_LIFECYCLE.transitions.values() for state in following}
    assert reached == set(CampaignState) == set(CAMPAIGN_LIFECYCLE.transitions)


def test_a_sweep_does_not_hurt(server: Server, person: Person) -> None:
    boards(server, person, 1)
    campaign = started(server, person)
    sweep_all(server.services)
    with server.services.database.read() as session:
        assert session.scalar(text("SELECT count(*) FROM campaign_cells")) == 1
    assert get(person, campaign)["state"] == "running"
