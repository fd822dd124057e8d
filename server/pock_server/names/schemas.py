"""What calls about versions and tags take and show."""

import re
from enum import StrEnum
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from pock_server.db import globs
from pock_server.http.fields import Id
from pock_server.names.reference import MAX_CHARACTERS, TAG, VERSION


def _is_no_version(tag: str) -> str:
    if re.fullmatch(VERSION, tag):
        raise ValueError("is the form of a version; choose another tag")
    return tag


Tag = Annotated[
    str,
    StringConstraints(pattern=TAG),
    AfterValidator(_is_no_version),
    Path(description="Up to 64 letters, digits and `_ . -`; not `v` with a number, which is a version."),
]
Ref = Annotated[
    str | None,
    Query(
        max_length=MAX_CHARACTERS,
        description="The one that this means, or none: `NAME` (the newest), `NAME:vN`, `NAME:TAG`, "
        "`NAME@sha256:PREFIX` (12 digits or more) or an id.",
    ),
]
NameGlob = Annotated[
    str | None,
    Query(
        max_length=globs.MAX_CHARACTERS,
        description="Those of this name; `*` stands for any characters, `?` for one.",
    ),
]


class Sort(StrEnum):
    """The order of a list."""

    NEWEST = "newest"
    """The last that was made comes first."""
    NAME = "name"
    """By name, and of one name the newest first."""
    LARGEST = "largest"
    """The one with the most bytes comes first."""


Sorting = Annotated[Sort, Query(description="The order; keep it from page to page.")]
Version = Annotated[int, Field(description="Of its name; 1 is the first. 0 for seconds, while a service is upgraded.")]
Tags = Annotated[list[str], Field(description="In the order of their letters.")]


class VersionOut(BaseModel):
    """One version of a name."""

    id: Id
    name: str
    version: Version
