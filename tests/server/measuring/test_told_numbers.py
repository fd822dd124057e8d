"""Which of what a device tells is a number."""

import math
from typing import Any

import pytest

from pock_server.benchmarks.verdict import Unusable, read_repeats
from pock_server.campaigns.measuring import measure
from pock_server.devices.told import told_number
from tests.server.harness import Device, Person, Server, assert_problem

NONE: dict[str, Any] = {
    "not a number": math.nan,
    "infinity": math.inf,
    "minus infinity": -math.inf,
    "a truth value": True,
    "an integer that no float holds": 10**400,
    "below": -1.5,
    "above": 100.0000001,
    "a text": "5",
    "nothing": None,
    "a list": [5],
    "an object": {"5": 5},
}


@pytest.mark.parametrize("value", NONE.values(), ids=NONE)
def test_what_is_no_number_between_the_bounds(value: Any) -> None:
    assert told_number(value, -1.0, 100.0) is None


@pytest.mark.parametrize("value", [0, 0.0, -0.0, -1, -1.0, 100, 100.0, 5, 5e-324])
def test_numbers_stay_as_they_were_told(value: float) -> None:
    found = told_number(value, -1.0, 100.0)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, True, 10**400, -(10**400), 1e301, "5"])
def test_each_reader_goes_by_it(value: Any) -> None:
    assert measure({"train": {"step_ms": {"median": value}, "peak_rss_bytes": 7}}) == {"peak_bytes": 7.0}
    with pytest.raises(Unusable, match="no time of a step"):
        read_repeats({"train": {"repeats": [{"median_ms": value}]}}, 1)


def test_zero_is_no_time_of_a_step_but_a_loss() -> None:
    assert measure({"train": {"loss": [0]}}) == {"loss": 0.0}
    with pytest.raises(Unusable):
        read_repeats({"train": {"repeats": [{"median_ms": 0}]}}, 1)


def test_a_run_whose_loss_is_no_number_goes_on(server: Server, person: Person, device: Device) -> None:
    run_id = server.run(person, device).json()["id"]
    device.take_work()
    assert device.post("lease").status_code == 200

    def tell(step: int, loss: str) -> Any:
        events = f'[{{"event": "step", "step": {step}, "loss": {loss}}}]'
        text = f'{{"fence": {device.work["fence"]}, "first_seq": {step}, "events": {events}}}'
        return device.call("POST", f"/runs/{run_id}/events", content=text, headers={"Content-Type": "application/json"})

    assert_problem(tell(0, "1" + "0" * 400), 422, 1006)
    for step, loss in enumerate(("NaN", "-Infinity", "1e301")):
        assert tell(step, loss).status_code == 200
        assert person.get(f"/runs/{run_id}").json()["progress"] == {"step": step, "steps": 3, "loss": None}
