"""References: how people say which version they mean. This module reads them and knows nothing of any database.

    NAME                   the newest version
    NAME:v3                the third
    NAME:TAG               the one that the tag names now
    NAME@sha256:PREFIX     the newest of those whose digest begins so, with at least 12 digits
    an id                  that one; a name in the form of an id is meant by NAME:v1 and the like

What follows the last colon is a tag if it has the form of one, so a name with a colon needs its version or tag as well.
"""

import re
from dataclasses import dataclass

from pock_server.http.fields import UUID

MAX_CHARACTERS = 300
TAG = r"^[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}$"
VERSION = r"v[0-9]+"
"""Forms that no tag has."""
_DIGEST = "@sha256:"


@dataclass(frozen=True)
class Reference:
    """What is asked for: an id alone, or a name, and of it one version, one tag, one digest, or the newest."""

    id: str | None = None
    name: str = ""
    version: int | None = None
    tag: str | None = None
    digest: str | None = None


class BadReference(ValueError):
    """A sentence's beginning about what is wrong."""


def parse(text: str) -> Reference:
    """What the text refers to; raises `BadReference`."""
    if re.fullmatch(UUID, text):
        return Reference(id=text)
    name, at, digest = text.rpartition(_DIGEST)
    if at:
        if not name or not re.fullmatch(r"[0-9a-f]{12,64}", digest):
            raise BadReference("after NAME@sha256: stand 12 to 64 of the digits 0-9 and a-f")
        return Reference(name=name, digest=digest)
    name, colon, last = text.rpartition(":")
    if colon and name and re.fullmatch(VERSION, last):
        number = int(last[1:]) if len(last) <= 10 else 0  # there is no version that large, and none is 0
        return Reference(name=name, version=number)
    if colon and name and re.fullmatch(TAG, last):
        return Reference(name=name, tag=last)
    if not text:
        raise BadReference("a reference is NAME, NAME:vN, NAME:TAG, NAME@sha256:DIGITS or an id")
    return Reference(name=text)
