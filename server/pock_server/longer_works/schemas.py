"""How a run tells of which work it is a part."""

from enum import StrEnum

from pydantic import BaseModel, Field

from pock_server.http.fields import Id


class LongerWorkKind(StrEnum):
    """What asks for runs."""

    CAMPAIGN = "campaign"
    """Builds on devices with seeds; each run is the one of a cell, or a further try of it."""
    FEDERATION = "federation"
    """Federated training; each run is the part of one device in one round."""
    TUNING = "tuning"
    """The search for the best kernels of a build; each run measures some."""
    BENCHMARK = "benchmark"
    """The measurement of a build on a device, which is one run."""


class LongerWork(BaseModel):
    """The longer work that asked for a run."""

    kind: LongerWorkKind
    id: Id
    name: str = Field(description="Its own, or that of its build where it has none.")
