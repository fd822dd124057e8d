"""What unpacks the kernels' machine code in a program: whole streams, and damaged ones."""

from __future__ import annotations

import ctypes
import random
from typing import Any

import pytest

from pockengine.codegen.cuda.build import device_runtime
from pockengine.codegen.cuda.text import pack
from pockengine.targets import get
from tests.compiler.codegen.harness import compile_sources

SPACE = 32 << 10


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    sources = device_runtime().sources
    text = sources["unpack.c"].replace('#include "unpack.h"', sources["unpack.h"])
    checked = ("-O1", "-fsanitize=undefined", "-fsanitize-trap=undefined")
    return compile_sources(tmp_path_factory.mktemp("unpack"), {"unpack": text}, get("host"), checked)


def unpacked(library: Any, packed: bytes, size: int) -> bytes | None:
    """The contents, or None where it says that they are damaged. What lies around them has to stay."""
    guard = b"\xa5" * 64
    room = ctypes.create_string_buffer(guard + bytes(size) + guard)
    space = (ctypes.c_uint64 * (SPACE // 8))()
    at = ctypes.c_void_p(ctypes.addressof(room) + 64)
    whole = library.pock_unpack(
        at, ctypes.c_size_t(size), packed, ctypes.c_size_t(len(packed)), ctypes.cast(space, ctypes.c_void_p)
    )
    assert room.raw[:64] == room.raw[64 + size : 128 + size] == guard
    return room.raw[64 : 64 + size] if whole else None


def _images(kind: str) -> list[bytes]:
    drawn = random.Random(kind)
    if kind == "noise":
        return [drawn.randbytes(size) for size in (1, 17, 4099, 70_000)]
    if kind == "alike":
        base = drawn.randbytes(9000)
        return [base[: drawn.randrange(9000)] + drawn.randbytes(9) + base for _ in range(30)]
    if kind == "runs":
        return [bytes([drawn.randrange(3)]) * drawn.randrange(1, 3000) for _ in range(300)]
    return [b"".join(drawn.choice((b"abc", b"\0" * 40, b"x", drawn.randbytes(3))) for _ in range(9000))]


@pytest.mark.parametrize("kind", ["noise", "alike", "runs", "words"])
def test_images_come_back(library: Any, kind: str) -> None:
    images = _images(kind)
    packed, places, size = pack(images)
    found = unpacked(library, packed, size)
    assert found is not None
    for image, at in zip(images, places, strict=True):
        assert at % 16 == 0 and found[at : at + len(image)] == image


def test_no_images_are_a_stream_too(library: Any) -> None:
    packed, places, size = pack([])
    assert packed and not places and unpacked(library, packed, size) == b""


def test_what_is_cut_short_is_refused(library: Any) -> None:
    packed, _, size = pack(_images("words"))
    for length in (0, 1, 4, 5, 100, len(packed) // 2, len(packed) - 20):
        assert unpacked(library, packed[:length], size) is None, length
    assert unpacked(library, packed, size + 1) is None


def test_damage_does_no_harm(library: Any) -> None:
    images = _images("alike")
    packed, _, size = pack(images)
    drawn, wrong = random.Random(0), 0
    whole = unpacked(library, packed, size)
    for _ in range(300):
        damaged = bytearray(packed)
        damaged[drawn.randrange(len(damaged) - 16)] ^= drawn.randrange(1, 256)
        wrong += unpacked(library, bytes(damaged), size) != whole
    assert wrong == 300
