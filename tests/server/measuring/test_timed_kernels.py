"""Runs that time each kernel: what a device is told, and who cannot."""

import pytest

from tests.server.harness import Device, Person, Server, assert_problem


@pytest.fixture
def knowing(server: Server, person: Person) -> Device:
    """A device with an agent of today."""
    return server.device(person, {"target": "host", "agent_version": "0.2.0", "features": ["profile"]})


def test_it_is_in_the_signed_work_and_the_kernels_in_the_report(
    server: Server, person: Person, knowing: Device
) -> None:
    run = server.run(person, knowing, profile=True, retries={"transient": 1}, retry_delay_seconds=0).json()
    assert run["profile"] is True
    work = knowing.take_work()
    assert work is not None and work["run"]["profile"] is True
    assert knowing.post("lease").status_code == 200
    assert knowing.post("result", state="failed", failure={"code": 20001, "detail": "for a while"}).status_code == 200
    again = person.get(f"/runs/{run['id']}").json()["retried_by"]
    assert person.get(f"/runs/{again}").json()["profile"] is True
    assert knowing.take_work() is not None
    assert knowing.post("lease").status_code == 200
    kernel = {"name": "conv", "kernel": "k_1", "node": 0, "ms": 0.5, "flops": 9.0, "bytes": 36.0}
    answer = knowing.post("result", state="succeeded", report={"train": {"kernels": [kernel]}})
    assert answer.status_code == 200
    (found,) = person.get(f"/runs/{again}").json()["report"]["train"]["kernels"]
    assert kernel.items() <= found.items()


def test_nothing_is_timed_that_nobody_asked_for(server: Server, person: Person, knowing: Device) -> None:
    assert server.run(person, knowing).json()["profile"] is False
    work = knowing.take_work()
    assert work is not None and "profile" not in work["run"]


def test_agents_of_before_cannot(server: Server, person: Person, device: Device) -> None:
    answer = server.run(person, device, profile=True)
    assert_problem(answer, 409, 1014)
    assert "time each kernel; update it" in answer.json()["detail"]


def test_an_evaluation_times_nothing(server: Server, person: Person, knowing: Device) -> None:
    answer = server.run(person, knowing, profile=True, entry="eval")
    assert_problem(answer, 422, 1006)
    assert "profile belongs to a training or a benchmark" in answer.json()["detail"]
