"""Numbers out of a tensor's bytes, by its dtype. Knows no file and no request, and needs no numpy."""

import struct
import sys
from array import array
from collections.abc import Sequence
from math import isfinite

ITEM_BYTES = {
    "bool": 1, "u8": 1, "i8": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2,
    "i32": 4, "u32": 4, "f32": 4, "f64": 8, "i64": 8, "u64": 8,
}  # fmt: skip
"""Bytes of one number of each dtype that can be shown; floats of 8 bits cannot."""
WHOLE = frozenset({"bool", "u8", "i8", "i16", "u16", "i32", "u32", "i64", "u64"})
"""Dtypes of whole numbers."""
_CODES = {
    "bool": "B", "u8": "B", "i8": "b", "i16": "h", "u16": "H",
    "i32": "i", "u32": "I", "f32": "f", "f64": "d", "i64": "q", "u64": "Q",
}  # fmt: skip
_DIGITS = {"f16": 5, "bf16": 4, "f32": 7, "f64": 15}
"""Digits of a float that its dtype can tell apart."""


def decode(data: bytes, dtype: str) -> Sequence[float]:
    """The numbers of little-endian bytes."""
    if dtype == "f16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    if dtype == "bf16":  # the upper half of a float of 32 bits
        wide = bytearray(2 * len(data))
        wide[2::4], wide[3::4] = data[0::2], data[1::2]
        data, dtype = bytes(wide), "f32"
    found = array(_CODES[dtype])
    found.frombytes(data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def readable(numbers: Sequence[float], dtype: str) -> list[float | None]:
    """The numbers as JSON can tell them: floats with the digits that they have, None for what is not finite."""
    if dtype in WHOLE:
        return list(numbers)
    digits = _DIGITS[dtype]
    return [float(f"{number:.{digits}g}") if isfinite(number) else None for number in numbers]
