"""What a build takes of the C libraries that were compiled for everybody, while others compile."""

import fcntl
import os
from pathlib import Path

import pytest

from pock_server.worker import cache

ZIG = "0123456789abcdef"


def made(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def found(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of this process."""
    own = tmp_path / "own"
    monkeypatch.setattr(cache, "zig_cache", lambda: own / "zig" / ZIG)
    monkeypatch.setattr(cache, "default_folder", lambda: own)
    return own


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "base"
    zig = {"h/one": "record of one", "h/two": "", "o/1/one.o": "one", "o/2/two.o": "tw", "b/3/builtin.zig": "three"}
    made(base, {f"zig/{ZIG}/{name}": text for name, text in zig.items()} | {"objects/ab/abcd/object.o": "four"})
    return base


def test_a_build_can_write_whatever_it_took(base: Path, own: Path) -> None:
    """Zig replaces what has no record yet: a link to a folder that can only be read would end the build."""
    cache.adopt(base)
    assert not [path for path in own.rglob("*") if path.is_symlink()]
    taken = {**found(base)}
    del taken[f"zig/{ZIG}/h/two"]  # not whole
    assert found(own) == taken
    made(base, {f"zig/{ZIG}/h/two": "record of two", f"zig/{ZIG}/o/5/five.o": "five"})
    cache.adopt(base)
    assert found(own) == found(base)


def test_a_record_that_is_being_written_is_left_alone(base: Path, own: Path) -> None:
    held = os.open(base / "zig" / ZIG / "h" / "one", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    cache.adopt(base)
    assert not list((own / "zig" / ZIG / "h").iterdir())
    os.close(held)
    cache.adopt(base)
    assert (own / "zig" / ZIG / "h" / "one").read_text() == "record of one"


def test_a_base_that_is_not_there_gives_nothing(tmp_path: Path, own: Path) -> None:
    cache.adopt(tmp_path / "none")
    assert not own.exists()
