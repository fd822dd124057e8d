"""Bodies of the calls about devices, and of those that devices make about themselves."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field

from pock_server.devices.labels import LabelChanges, Labels
from pock_server.devices.states import DeviceState
from pock_server.http.fields import Base64Key, Base64Signature, Facts, Id, JsonObject, Name, check_json
from pock_server.http.pages import PageOut
from pock_server.trust.schemas import TrustDocument

MAX_TOKEN_SECONDS = 900


class TokenIn(BaseModel):
    """An enrolment token to make."""

    name: Name | None = Field(default=None, description="Name of the device; default: the one it gives itself.")
    pool: Name = "default"
    labels: Labels = Field(default_factory=dict, description="Of the device.")
    ttl_seconds: int = Field(default=MAX_TOKEN_SECONDS, ge=1, le=MAX_TOKEN_SECONDS)


class TokenCreated(BaseModel):
    """A token just made; this is the only time it is shown."""

    id: Id
    token: str
    expires_at: datetime


class RestIn(BaseModel):
    """A device does no work for now, because a policy forbids it."""

    reason: Annotated[str, AfterValidator(check_json)] = Field(min_length=1, max_length=1000)
    until: AwareDatetime | None = Field(default=None, description="Null where the device cannot know.")


class RestOut(BaseModel):
    """Why a device does no work for now, since when and, where that is known, until when."""

    reason: str
    since: datetime
    until: datetime | None


class DeviceOut(BaseModel):
    """A device."""

    id: Id
    name: str
    pool: str
    labels: dict[str, str] = Field(description="What operators say about it, in the order of the keys.")
    target: str | None = Field(description="The target that the device says it is.")
    state: DeviceState
    last_seen_at: datetime | None
    facts: JsonObject = Field(description="What the agent reports: processor, memory, temperature, battery and so on.")
    temperature_c: float | None = Field(description="Degrees Celsius of its hottest part, as it last reported.")
    throttled: bool | None = Field(description="Whether it said last that it is slowed down.")
    memory_bytes: int | None
    agent_version: str | None
    current_run_id: Id | None
    current_run_name: str | None = Field(description="The name of the build that its present run runs.")
    resting: RestOut | None = Field(description="Why it does no work for now; what is asked of it waits.")
    created_at: datetime


class DevicePage(PageOut[DeviceOut]):
    """Devices, newest first."""

    total: int = Field(description="Of all pages, now.")


class GroupOut(BaseModel):
    """How many devices have one thing in common."""

    name: str
    count: int


class DeviceTotals(BaseModel):
    """How many devices there are, now; of each kind of group the 100 largest, by name."""

    total: int
    states: dict[DeviceState, int] = Field(description="Those that any device is in.")
    throttled: int = Field(description="That say that they are slowed down.")
    resting: int = Field(description="That do no work for now, because a policy forbids it.")
    pools: list[GroupOut]
    targets: list[GroupOut]
    agent_versions: list[GroupOut]


class DeviceChange(BaseModel):
    """What is to change about a device; what is left out stays."""

    name: Name | None = None
    pool: Name | None = None
    labels: LabelChanges = Field(default_factory=dict)


class EnrolIn(BaseModel):
    """A device that wants in."""

    token: str = Field(max_length=200)
    name: Name
    public_key: Base64Key
    facts: Facts = Field(default_factory=dict, description="`target` and `agent_version` are shown on their own.")


class EnrolOut(BaseModel):
    """What the device keeps."""

    device_id: Id
    server_public_key: Base64Key
    key_id: str
    trust: TrustDocument = Field(description="Which keys may sign work from now on; agents of before pin the one key.")
    heartbeat_seconds: float
    poll_seconds: float


class SessionIn(BaseModel):
    """A session request, signed over `pock-session\\n{device_id}\\n{counter}\\n{issued_at}`."""

    device_id: Id
    counter: int = Field(ge=1, le=2**31 - 1, description="Greater than in any earlier request.")
    issued_at: str = Field(max_length=64, pattern=r"^[0-9A-Za-z:.+\-]+$", description="RFC 3339, as it was signed.")
    signature: Base64Signature


class SessionOut(BaseModel):
    """A session; it replaces the device's earlier one."""

    session_token: str
    expires_at: datetime
    heartbeat_seconds: float


class AgentState(StrEnum):
    """What the agent is doing."""

    IDLE = "idle"
    BUSY = "busy"


class HeartbeatIn(BaseModel):
    """A sign of life."""

    state: AgentState
    run_id: Id | None = None
    fence: int | None = Field(default=None, ge=0, le=2**31 - 1)
    facts: Facts | None = Field(default=None, description="Replaces what was reported before.")
    resting: RestIn | None = None
    policy: str | None = Field(
        default=None,
        pattern=r"^([0-9a-f]{64})?$",
        max_length=64,
        description="Digest of the policies that the device keeps, empty for none; null of agents that know none.",
    )
    data: str | None = Field(
        default=None,
        pattern=r"^([0-9a-f]{64})?$",
        max_length=64,
        description="Digest of the list of data that stays on the device, empty for none; null of agents of before.",
    )


class SignedPolicy(BaseModel):
    """What a device may do when: by its own policy and by its pool's (docs/policies.md)."""

    payload: str = Field(description="Base64 of the JSON that was signed.")
    key_id: str
    signature: str = Field(description="Ed25519 over `pock-policy\\n` and the raw payload bytes, base64.")


class HeartbeatOut(BaseModel):
    """When to come back, and what to stop."""

    heartbeat_seconds: float
    cancel: list[Id] = Field(description="Runs to stop.")
    policy: SignedPolicy | None = Field(default=None, description="In place of those that the device keeps.")
    wants_data: bool | None = Field(default=None, description="The service has another list of the device's data.")
