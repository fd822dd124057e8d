"""Releases come to real agents from a real service: the canary first, what does not do is given up, and every device
ends with a version that works."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pock_client import Client
from tests.agent.update.fleet import Fleet, file_of, in_run, unreadable
from tests.client.service import Service

QUICK: dict[str, Any] = {"on": "*", "healthy_seconds": 1, "check_in_seconds": 20, "stages": [100]}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "service").mkdir()
    service = Service(folder / "service", POCK_HEARTBEAT_SECONDS="0.3", POCK_POLL_SECONDS="5")
    try:
        with Client(service.url, service.key) as client:
            made = Fleet(service, client, folder)
            file = file_of(folder / "pock-agent.pyz", "0.1.0")
            for number in range(2):
                made.add(file, f"pi-{number}")
            made.wait_for(lambda: len([one for one in client.devices.list() if one.state == "online"]) == 2, "agents")
            yield made
            made.close()
    finally:
        service.kill()


def test_a_release_reaches_all_the_canary_first(fleet: Fleet) -> None:
    order: list[dict[str, int]] = []
    rollout = fleet.client.rollouts.create(release=fleet.release("0.2.0"), **QUICK)
    done = fleet.client.rollouts.wait(rollout.id, lambda found: order.append(dict(found.devices)), timeout=90)
    assert done.state == "succeeded", [one.log for one in fleet.machines]
    assert set(fleet.versions().values()) == {"0.2.0"}
    before = [seen for seen in order if not seen.get("healthy")]
    assert all(sum(number for state, number in seen.items() if state != "pending") <= 1 for seen in before)


def test_a_release_that_crashes_is_rolled_back_and_stops_the_rollout(fleet: Fleet) -> None:
    rollout = fleet.client.rollouts.create(release=fleet.release("0.3.0", in_run("raise RuntimeError('no')")), **QUICK)
    done = fleet.client.rollouts.wait(rollout.id, timeout=90)
    assert (done.state, done.reason) == ("stopped", "1 of the devices failed, and 0 may")
    states = fleet.states(rollout.id)
    assert sorted(states.values()) == ["pending", "rolled_back"]
    (detail,) = [one.detail for one in fleet.client.rollouts.devices(rollout.id, state="rolled_back")]
    assert detail == "it ended with exit code 1, 3 times"
    fleet.wait_for(lambda: set(fleet.versions().values()) == {"0.2.0"}, "the version before")
    fleet.client.rollouts.cancel(rollout.id)


def test_a_release_that_does_not_start_is_never_installed(fleet: Fleet) -> None:
    rollout = fleet.client.rollouts.create(release=fleet.release("0.4.0", unreadable), **QUICK)
    assert fleet.client.rollouts.wait(rollout.id, timeout=90).state == "stopped"
    (detail,) = [one.detail for one in fleet.client.rollouts.devices(rollout.id, state="failed")]
    assert "it does not start here: `--version` ended with exit code 1" in detail
    fleet.client.rollouts.cancel(rollout.id)


def test_a_release_that_works_is_taken_back(fleet: Fleet) -> None:
    rollout = fleet.client.rollouts.create(release=fleet.release("0.5.0"), canary=0, **QUICK)
    assert fleet.client.rollouts.wait(rollout.id, timeout=90).state == "succeeded"
    fleet.client.rollouts.roll_back(rollout.id)
    assert fleet.client.rollouts.wait(rollout.id, timeout=90).state == "reverted"
    assert set(fleet.states(rollout.id).values()) == {"rolled_back"}
    fleet.wait_for(lambda: set(fleet.versions().values()) == {"0.2.0"}, "the version before")
