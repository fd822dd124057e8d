"""What the driver compiled is kept: found again, refused where anything about it is not as it was, and bounded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compiler.codegen.opencl.test_trouble import TRAIN, library, program
from tests.compiler.training.test_runs import Program

__all__ = ["library", "program"]

Made = Callable[[], list[str]]
"""Starts the program; what the driver made its kernels of: text, binary, or a binary that it refused."""


@pytest.fixture
def made(program: Program, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))

    def start() -> list[str]:
        (tmp_path / "log").unlink(missing_ok=True)
        program.call(*TRAIN)
        return (tmp_path / "log").read_text().split()

    return start


def test_a_second_start_compiles_nothing(made: Made, kernel_cache: Path) -> None:
    assert made() == ["text"]
    assert made() == ["binary"]
    (kept,) = kernel_cache.iterdir()
    assert kept.name.endswith(".clbin") and kept.stat().st_mode & 0o022 == 0


def test_another_driver_compiles_anew(made: Made, kernel_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made()
    monkeypatch.setenv("FAKE", "newer")
    assert made() == ["text"] and len(list(kernel_cache.iterdir())) == 2


def test_what_is_damaged_or_open_to_others_is_made_again(made: Made, kernel_cache: Path) -> None:
    made()
    (kept,) = kernel_cache.iterdir()
    whole = kept.read_bytes()
    for wrong in (whole[:-1], whole[:9], b"", whole[:-1] + b"!", whole + b"!", b"\xff" * 8 + whole[8:]):
        kept.write_bytes(wrong)
        assert made() == ["text"] and kept.read_bytes() == whole
    kept.chmod(0o666)
    assert made() == ["text"]


def test_what_the_driver_refuses_is_made_again(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made()
    monkeypatch.setenv("FAKE", "stale")
    assert made() == ["refused", "text"]


def test_a_driver_that_gives_nothing_is_asked_each_time(
    made: Made, kernel_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", "secretive")
    assert made() == made() == ["text"] and not kernel_cache.exists()


def test_the_oldest_make_place(made: Made, kernel_cache: Path) -> None:
    kernel_cache.mkdir()
    others = [kernel_cache / f"{number}.clbin" for number in range(40)]
    for number, other in enumerate(others):
        other.write_bytes(b"x")
        os.utime(other, (number + 1, number + 1))
    (kernel_cache / "mine.txt").write_text("not a program")
    assert made() == ["text"]
    assert [other.exists() for other in others] == [False] * 9 + [True] * 31
    assert (kernel_cache / "mine.txt").exists() and made() == ["binary"]


def test_where_it_is_kept(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCK_KERNEL_CACHE", "")
    assert made() == made() == ["text"]
    monkeypatch.delenv("POCK_KERNEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert made() == ["text"] and made() == ["binary"]
    assert len(list((tmp_path / "xdg" / "pockengine" / "opencl").iterdir())) == 1
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert made() == ["text"] and made() == ["binary"]
    assert len(list((tmp_path / "home" / ".cache" / "pockengine" / "opencl").iterdir())) == 1
