"""Enumerations that a newer service may extend: a member that this client does not know is kept as it came."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class OpenEnum(StrEnum):
    """Of texts. An unknown one becomes a member of its own, equal to its text; it is not listed among the members."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = member._value_ = value
        return member
