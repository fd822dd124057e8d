"""What rollouts can be, and their devices."""

from enum import StrEnum


class RolloutState(StrEnum):
    """How a rollout stands."""

    RUNNING = "running"
    """Devices are offered the release, stage after stage."""
    PAUSED = "paused"
    """Somebody holds it: nothing is offered."""
    STOPPED = "stopped"
    """It holds itself: too many devices failed. It can go on, be cancelled, or be rolled back."""
    SUCCEEDED = "succeeded"
    """Nothing is left to do."""
    CANCELLED = "cancelled"
    """Somebody ended it; devices keep what they have."""
    REVERTING = "reverting"
    """Devices are told to return to the version before."""
    REVERTED = "reverted"
    """They have returned."""


class UpdateState(StrEnum):
    """How one device of a rollout stands."""

    PENDING = "pending"
    """Its stage has not come."""
    OFFERED = "offered"
    """It is told of the release when it asks for work; `detail` may say why it waits."""
    INSTALLING = "installing"
    """It fetches and tries the release, or runs it and has not yet lasted."""
    HEALTHY = "healthy"
    """It runs the release, and has done so for long enough."""
    FAILED = "failed"
    """It did not install the release; the version before runs."""
    ROLLED_BACK = "rolled_back"
    """It had the release, and the version before runs again."""
    UNSUPPORTED = "unsupported"
    """Its agent cannot replace itself: `detail` says why."""


class Report(StrEnum):
    """What a device tells of an offer."""

    WAITING = "waiting"
    """It cannot be now."""
    INSTALLING = "installing"
    """The file is fetched and tried."""
    STARTED = "started"
    """The release runs."""
    FAILED = "failed"
    """It is not installed."""
    ROLLED_BACK = "rolled_back"
    """The version before runs again."""
    UNSUPPORTED = "unsupported"
    """The agent cannot replace itself by it."""


OPEN = (UpdateState.PENDING, UpdateState.OFFERED, UpdateState.INSTALLING)
"""States that something is to follow."""
BAD = (UpdateState.FAILED, UpdateState.ROLLED_BACK)
"""States that count as failures."""
