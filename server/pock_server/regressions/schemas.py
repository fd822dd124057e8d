"""Bodies of the regression calls."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from pock_server.http.fields import Id
from pock_server.http.pages import PageOut


class RegressionOut(BaseModel):
    """A step that became slower."""

    model_config = ConfigDict(from_attributes=True)

    id: Id
    model_name: str
    recipe_name: str | None
    target: str
    device_kind: str
    threads: int
    since_id: Id = Field(description="The first benchmark of those that are slower.")
    found_id: Id = Field(description="The benchmark that made it certain.")
    build_name: str = Field(description="What `since_id` measured.")
    build_version: int
    ratio: float = Field(description="How many times as slow as before.")
    interval_low: float = Field(description="95 % of the ratio.")
    interval_high: float
    p_value: float
    created_at: datetime


class RegressionPage(PageOut[RegressionOut]):
    """Regressions, newest first."""
