"""Bodies of the health calls."""

from pydantic import BaseModel, Field


class Alive(BaseModel):
    """The process answers."""

    status: str = "ok"


class Check(BaseModel):
    """One dependency."""

    name: str
    ok: bool
    detail: str
    needed: bool = Field(default=True, description="Whether requests fail without it.")


class Readiness(BaseModel):
    """All dependencies work."""

    status: str
    checks: list[Check]
