"""Sizes of memory and files as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}

_MOST = 2.0**63


def parse_size(text: str) -> int | None:
    """`"64MiB"` -> 67108864; also KiB, GiB, KB, MB, GB and plain bytes. None where it is no size, 0, or of more than 63
    bits."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([A-Za-z]*)", text.strip())
    if match is None or match[2].upper() not in _UNITS:
        return None
    size = float(match[1]) * _UNITS[match[2].upper()]
    return int(size) if 0 < size < _MOST else None
