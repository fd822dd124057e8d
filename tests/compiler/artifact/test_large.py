"""Artifacts from 4 GiB on, and weights that are written without a copy in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save

from pockengine.artifact import Artifact, archive
from pockengine.artifact.archive import Content, Held
from pockengine.ir import DType
from pockengine.targets import get
from pockengine.tensors import Tensors
from tests.compiler.artifact import toy_artifact

PIECE = bytes(64 << 20)
PIECES = 72
"""Together 4.5 GiB."""


@dataclass(frozen=True)
class Zeros:
    """A member of 4.5 GiB that takes no memory."""

    def chunks(self) -> Iterator[bytes]:
        yield from [PIECE] * PIECES


def _sparse(path: Path, pieces: Iterator[bytes | memoryview]) -> None:
    """Write pieces, leaving holes for PIECE."""
    with path.open("wb") as file:
        for piece in pieces:
            if piece is PIECE:
                file.seek(len(piece), 1)
            else:
                file.write(piece)


def test_members_behind_4_gib_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long sum over zeros says nothing here, so it is left out."""
    usual = archive._checksum
    size = len(PIECE) * PIECES
    monkeypatch.setattr(archive, "_checksum", lambda one: (0, size) if isinstance(one, Zeros) else usual(one))
    members: dict[str, Content] = {"a": Held(b"before"), "b": Zeros(), "c": Held(b"behind"), "d": Held(b"last")}
    path = tmp_path / "large.pock"
    _sparse(path, archive.pack(members))
    assert path.stat().st_size > 4 << 30
    with zipfile.ZipFile(path) as opened:
        assert opened.getinfo("b").file_size == size
        assert opened.getinfo("c").header_offset > 4 << 30
        assert [opened.read(name) for name in "acd"] == [b"before", b"behind", b"last"]
        assert [info.extract_version for info in opened.infolist()] == [20, 45, 45, 45]
    assert b"".join(archive.read(path)["c"].chunks()) == b"behind"


@pytest.mark.parametrize("extra", [{}, {"nul\nl": np.zeros((), np.float32)}, {"none": np.zeros((0, 3), np.int8)}])
def test_tensors_are_the_librarys_bytes(extra: dict[str, np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    arrays: dict[str, np.ndarray] = {
        f"{name}.{dtype.value}": np.asarray(rng.integers(0, 2, (3, 5)), dtype.numpy)
        for name in ("b", "a", "é")
        for dtype in DType
        if dtype is not DType.BIT
    }
    arrays["transposed"] = np.arange(12, dtype=np.float32).reshape(3, 4).T
    arrays |= {"wide": rng.random((700, 600)), **extra}
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    assert arrays["a.bf16"].dtype == ml_dtypes.bfloat16
    assert b"".join(Tensors(arrays).chunks()) == save(contiguous)
    assert b"".join(Tensors({}).chunks()) == save({})


def test_contents_may_come_in_pieces(tmp_path: Path) -> None:
    made = toy_artifact.make(tmp_path, get("host"))
    members = {name: made.read(name) for name in made.contents}

    @dataclass(frozen=True)
    class Pieces:
        data: bytes

        def chunks(self) -> Iterator[bytes]:
            yield from (self.data[i : i + 1000] for i in range(0, len(self.data), 1000))

    again = Artifact.create(replace(made.manifest, members={}), {name: Pieces(data) for name, data in members.items()})
    assert again.digest == made.digest
    again.save(tmp_path / "again.pock")
    assert Artifact.open(tmp_path / "again.pock").read("graph.txt") == b"toy\n"
