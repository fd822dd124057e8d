"""Bodies of the calls about policies."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from pock_server.devices.schemas import RestOut

_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"


def _is_span(text: str) -> str:
    begin, end = text.split("-")
    if begin == end:
        raise ValueError(f"{text} begins where it ends; a whole day is 00:00-24:00")
    return text


Span = Annotated[
    str, StringConstraints(pattern=rf"^{_CLOCK}-(?:{_CLOCK}|24:00)$", max_length=11), AfterValidator(_is_span)
]


class Policy(BaseModel):
    """When a device may work. Each rule that is set has to be met; what is left out sets nothing."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    charging: bool = Field(default=False, description="Only while the device is plugged in.")
    max_temperature_celsius: float | None = Field(
        default=None, ge=0, le=150, description="Only below it; a device that reached it has to be 5 degrees cooler."
    )
    hours: list[Span] | None = Field(
        default=None, min_length=1, max_length=24, description='Local hours of the device, such as "22:00-06:30".'
    )
    max_minutes_per_day: float | None = Field(default=None, ge=0, le=1440)
    max_joules_per_day: float | None = Field(default=None, ge=0, le=1e12)
    metered: Literal["never", "allow"] = Field(default="allow", description="On networks that cost by the byte.")
    unknown: Literal["allow", "forbid"] = Field(
        default="allow", description="What a rule means on a device that cannot tell what the rule is about."
    )


NO_VERSION = "none"
"""The version of a policy that is not there."""

Version = Annotated[str, StringConstraints(pattern=r"^(?:none|[0-9a-f]{64})$")]
"""Names what a policy says: equal rules have equal versions."""


class PoolPolicyOut(BaseModel):
    """The policy of a pool."""

    pool: str
    policy: Policy
    version: Version = Field(description="Of these rules, for `expected`.")


class DevicePolicyOut(BaseModel):
    """What a device may do when: its own policy and its pool's, which both have to allow work."""

    policy: Policy | None = Field(description="The device's own.")
    version: Version = Field(description='Of the device\'s own rules, for `expected`; "none" where it has none.')
    pool: str
    pool_policy: Policy | None
    pool_version: Version = Field(description="Of the pool's rules, likewise.")
    known: bool = Field(description="The device has told that it keeps these.")
    resting: RestOut | None = Field(description="Why it does no work at the moment, by whomever's policy.")
