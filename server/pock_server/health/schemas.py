"""Bodies of the health calls."""

from pydantic import BaseModel


class Alive(BaseModel):
    """The process answers."""

    status: str = "ok"


class Check(BaseModel):
    """One dependency."""

    name: str
    ok: bool
    detail: str


class Readiness(BaseModel):
    """All dependencies work."""

    status: str
    checks: list[Check]
