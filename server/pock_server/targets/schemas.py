"""Bodies of the target call."""

from pydantic import BaseModel, ConfigDict


class TargetOut(BaseModel):
    """A device type the compiler builds for; further fields are those of its description file."""

    model_config = ConfigDict(extra="allow")

    name: str
    description: str
    triple: str


class TargetList(BaseModel):
    """All targets."""

    items: list[TargetOut]
