"""What agents say that they understand."""

from typing import Any

import pytest

from pock_server.devices.features import _ABILITY, Feature, knows, require
from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem


def device(**facts: Any) -> DeviceRecord:
    return DeviceRecord(name="shed pi", facts=facts, agent_version=facts.get("agent_version"))


def test_an_agent_knows_what_it_tells() -> None:
    assert knows(device(features=["other", "repeats"]), Feature.REPEATS)
    require(device(features=["repeats"]), Feature.REPEATS)


@pytest.mark.parametrize("features", [None, [], ["other"], "repeats", {"repeats": True}, [["repeats"]], 7])
def test_an_agent_of_before_and_one_that_tells_nonsense_know_nothing(features: object) -> None:
    with pytest.raises(Problem) as caught:
        require(device(features=features, agent_version="0.1.0"), Feature.REPEATS)
    assert caught.value.failure is Failure.STATE_CONFLICT
    wanted = "Device shed pi has agent 0.1.0, which cannot repeat a benchmark with pauses; update it: docs/agent.md."
    assert caught.value.detail == wanted
    assert not knows(device(), Feature.REPEATS)


def test_every_feature_is_said_in_words() -> None:
    assert set(_ABILITY) == set(Feature)
