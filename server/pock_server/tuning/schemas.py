"""Bodies of the tuning calls."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, Field

from pock_server.builds.schemas import FailureOut
from pock_server.http.fields import Digest, Facts, Id, Name, SmallValue
from pock_server.http.pages import PageOut
from pock_server.tuning.lifecycle import TuningState

MAX_IMPORTED = 200
"""Entries of one request."""


class Source(StrEnum):
    """Where an entry comes from."""

    FLEET = "fleet"
    """Devices of this workspace measured it."""
    IMPORT = "import"
    """Somebody brought it as a file."""


class Standing(StrEnum):
    """What a measurement counts."""

    COUNTED = "counted"
    """It was weighed, and agrees with what was decided, if that was."""
    OUTVOTED = "outvoted"
    """Other devices agree on something else."""
    DROPPED = "dropped"
    """It does not count: its device is not believed, or only emulated."""


class TuningEntryOut(BaseModel):
    """What is known of one workload on one target."""

    id: Id
    key: Digest
    target: str
    family: str
    inputs: dict[str, str] = Field(description="All that the workload depends on; `key` is their SHA-256.")
    choice: Any = Field(description="Means something to the compiler alone; null until it was decided.")
    choice_text: str | None
    candidates: int
    ms: float | None
    model_ms: float | None = Field(description="Of what the compiler's model chooses.")
    devices: int = Field(description="That agree.")
    source: Source
    provenance: dict[str, Any] | None
    created_at: datetime
    decided_at: datetime | None


class TuningEntryPage(PageOut[TuningEntryOut]):
    """Entries, newest first."""


class TuningEntryIn(BaseModel):
    """An entry of a file that `pock tuning export` wrote."""

    inputs: dict[Name, Annotated[str, Field(max_length=64 << 10)]] = Field(min_length=1, max_length=64)
    choice: SmallValue
    ms: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)
    model_ms: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)
    provenance: Facts | None = None


class TuningImportIn(BaseModel):
    """Entries to be known from now on."""

    target: Name = Field(description="A name from `GET /v1/targets`.")
    entries: list[TuningEntryIn] = Field(min_length=1, max_length=MAX_IMPORTED)


class TuningImportOut(BaseModel):
    """How many were new, and how many were there; what devices of this workspace decided stays."""

    added: int
    kept: int


class TuningOut(BaseModel):
    """A search for what is best for a build's unknown workloads."""

    id: Id
    build_id: Id = Field(description="The build that began it.")
    build_name: str
    target: str
    threads: int
    state: TuningState
    packs: int = Field(description="Programs of trials so far.")
    tried: int = Field(description="Workloads in them, but for the present one.")
    trying: int = Field(description="Workloads in the present one.")
    decided: int
    failure: FailureOut | None
    created_at: datetime
    finished_at: datetime | None


class TuningPage(PageOut[TuningOut]):
    """Tunings, newest first."""


class DistrustOut(BaseModel):
    """A device whose measurements do not count."""

    device_id: Id
    device_name: str
    reason: str
    run_id: Id
    since: datetime


class DistrustPage(PageOut[DistrustOut]):
    """Distrusted devices, newest first."""
