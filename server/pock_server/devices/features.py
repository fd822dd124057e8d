"""What agents understand beyond the first manifests: each tells the names in its device's facts.

An agent refuses a signed field that it does not know, so what belongs to a feature is sent only to those that tell it.
"""

from enum import StrEnum

from pock_server.devices.tables import DeviceRecord
from pock_server.http.problems import Failure, Problem


class Feature(StrEnum):
    """A name, as agents tell it; it keeps its meaning for ever."""

    UPDATES = "updates"
    """It replaces itself by what is offered: `GET /agent/update`."""
    REPEATS = "repeats"
    """Benchmarks of a wanted number of repeats, with pauses: `bench` in the manifest."""
    LOCAL_DATA = "local-data"
    """`data.train` and `data.eval` of the manifest may name data that lies on the device."""
    POLICIES = "policies"
    """Signed policies with the answer to a heartbeat, which the agent keeps; jobs pause when they end."""

    WEIGHTS_DELTA = "weights-delta"
    """Trained weights go back as what changed: `run.weights_form` in the manifest."""
    INITIAL_WEIGHTS = "initial-weights"
    """A run begins with weights that come with it: `data.weights` in the manifest."""
    HELD_OUT = "held-out"
    """A training evaluates a share of its data instead of training on it: `run.held_out` in the manifest."""
    PROFILE = "profile"
    """A training times each kernel: `run.profile` in the manifest."""


_ABILITY = {
    Feature.UPDATES: "replace itself",
    Feature.REPEATS: "repeat a benchmark with pauses",
    Feature.WEIGHTS_DELTA: "send weights as what changed of them",
    Feature.INITIAL_WEIGHTS: "begin with other weights than its artifact's",
    Feature.HELD_OUT: "hold out a share of its data",
    Feature.PROFILE: "time each kernel",
    Feature.LOCAL_DATA: "train on data that stays on it",
    Feature.POLICIES: "follow policies",
}


def knows(device: DeviceRecord, feature: Feature) -> bool:
    """Whether the device's agent told this feature the last time that it reported its facts."""
    told = device.facts.get("features")
    return isinstance(told, list) and feature in told


def require(device: DeviceRecord, feature: Feature) -> None:
    """Raise a 409 `Problem` unless the device's agent knows the feature."""
    if not knows(device, feature):
        version = f"has agent {device.agent_version}, which" if device.agent_version else "has an agent that"
        detail = f"Device {device.name} {version} cannot {_ABILITY[feature]}; update it: docs/agent.md."
        raise Problem(Failure.STATE_CONFLICT, detail)
