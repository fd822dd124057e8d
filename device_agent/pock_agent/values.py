"""Values in the form in which they travel: JSON objects, and times as RFC 3339 writes them."""

from __future__ import annotations

import datetime
import re
from typing import Any

JsonObject = dict[str, Any]
"""What `json` makes of an object."""

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def parse_time(text: object) -> float:
    """Seconds since the epoch of an RFC 3339 time; ValueError says what is wrong with anything else."""
    match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-01-31T12:00:00Z")
    day, clock, fraction, zone = match.groups()
    offset = "+00:00" if zone in "Zz" else zone
    moment = datetime.datetime.fromisoformat(f"{day}T{clock}{offset}")
    return moment.timestamp() + float(fraction or 0)


def format_time(seconds: float) -> str:
    """RFC 3339 in UTC, to the second."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
