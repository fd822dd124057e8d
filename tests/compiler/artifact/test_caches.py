"""The cache folder bounds itself: the least recently used go first, and nothing that a process uses goes at all."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pockengine.artifact import Artifact
from pockengine.artifact.artifact import unpacked
from pockengine.codegen.folder_cache import FolderCache, Usage, drop_abandoned, use, workspace
from pockengine.codegen.object_cache import ObjectCache
from pockengine.errors import PockError

MINUTES = 60.0
HOLDER = (
    "import sys, time; from pathlib import Path; from pockengine.codegen.folder_cache import use, workspace\n"
    "place = Path(sys.argv[1])\n"
    "with workspace(place.parent.parent):\n"
    "    hold = use(place); print(hold is not None, flush=True); time.sleep(600)\n"
)
UNPACKER = """
import hashlib, sys
from pathlib import Path
from pockengine.artifact import Artifact, artifact as module
module._IDLE = 0.0
folder, start, files = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
for turn in range(60):
    artifact = Artifact.open(files[(start + turn * (start + 1)) % len(files)])
    place = artifact.unpack(folder)
    for name, member in artifact.manifest.members.items():
        assert hashlib.sha256((place / name).read_bytes()).hexdigest() == member.sha256
"""


def put(cache: FolderCache, name: str, nbytes: int, minutes: float) -> Path:
    """An entry that was last used so many minutes ago."""
    with workspace(cache.root) as folder:
        (folder / "new").mkdir()
        (folder / "new" / "data").write_bytes(bytes(nbytes))
        cache.publish(folder / "new", cache.folder / name, lambda: True).close()
    aged(cache.folder / name, minutes)
    return cache.folder / name


def aged(entry: Path, minutes: float) -> None:
    os.utime(entry, (time.time() - minutes * MINUTES,) * 2)


def left(cache: FolderCache) -> list[str]:
    return sorted(entry.name for entry in cache.folder.iterdir())


@pytest.fixture
def cache(tmp_path: Path) -> FolderCache:
    return FolderCache(tmp_path, "things", 5 * MINUTES)


def test_the_least_recently_used_go_until_the_rest_fits(cache: FolderCache) -> None:
    new = put(cache, "new", 30, 0)
    for name, minutes in (("a", 40), ("b", 10), ("c", 30), ("d", 20)):
        put(cache, name, 10, minutes)
    assert cache.shrink(70, new) == Usage()
    assert cache.shrink(55, new) == Usage(2, 20)
    assert left(cache) == ["b", "d", "new"]
    use(cache.folder / "b")
    assert cache.shrink(40, new) == Usage(1, 10)
    assert left(cache) == ["b", "new"]


def test_what_was_just_made_or_used_stays_beyond_the_limit(cache: FolderCache) -> None:
    new = put(cache, "new", 100, 90)
    put(cache, "young", 100, 4)
    put(cache, "old", 100, 6)
    assert cache.shrink(1, new) == Usage(1, 100)
    assert left(cache) == ["new", "young"]


def test_what_a_process_holds_stays_until_it_is_killed(cache: FolderCache) -> None:
    held = put(cache, "held", 10, 0)
    other = subprocess.Popen([sys.executable, "-c", HOLDER, str(held)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        for place in cache.root.glob("work-*"):
            aged(place, 60)
        drop_abandoned(cache.root)
        assert cache.prune(float("inf")) == Usage()
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert len(list(cache.root.glob("work-*"))) == 1
    drop_abandoned(cache.root)
    assert not list(cache.root.glob("work-*"))
    assert cache.prune(float("inf")) == Usage(1, 10)
    assert left(cache) == []


@pytest.mark.parametrize("do", [use, lambda entry: FolderCache(entry.parents[1], "things", 0).prune(float("inf"))])
def test_what_replaces_an_entry_meanwhile_is_neither_held_nor_dropped_for_it(
    do: Callable[[Path], object], cache: FolderCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, flock = put(cache, "entry", 10, 0), fcntl.flock

    def late(descriptor: int, kind: int) -> None:
        """Another process drops the entry, and makes it anew, before this one locks it."""
        monkeypatch.setattr(fcntl, "flock", flock)
        entry.rename(cache.root / "dropped")
        put(cache, "entry", 20, 0)
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    assert do(entry) in (None, Usage())
    assert cache.usage() == Usage(1, 20)


def test_whoever_finds_damage_mends_it_alone(cache: FolderCache) -> None:
    """Else the second of two would take away what the first has put in its place."""
    entry = put(cache, "entry", 10, 0)

    def is_intact() -> bool:
        descriptor = os.open(entry.parent, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        return False

    with workspace(cache.root) as folder:
        (folder / "new").mkdir()
        (folder / "new" / "data").write_bytes(bytes(20))
        assert cache.publish(folder / "new", entry, is_intact).is_at(entry)
    assert cache.usage() == Usage(1, 20)
    assert put(cache, "entry", 30, 0) == entry  # the lock is free again
    assert cache.usage() == Usage(1, 20)


def variants(artifact: Artifact, count: int) -> list[Artifact]:
    """Artifacts of equal size and different contents."""
    members = {name: artifact.read(name) for name in artifact.manifest.members}
    manifest = dataclasses.replace(artifact.manifest, members={})
    return [Artifact.create(manifest, {**members, "graph.txt": b"toy %d\n" % i}) for i in range(count)]


def test_unpacked_artifacts_keep_to_the_limit(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *others = variants(artifact, 5)
    size = sum(member.size for member in first.manifest.members.values())
    monkeypatch.setenv("POCK_CACHE_LIMIT", str(2 * size + size // 2))
    places = [first.unpack(tmp_path), second.unpack(tmp_path)]
    del second
    for made in others:
        for entry in unpacked(tmp_path).folder.iterdir():
            aged(entry, 2 if entry != places[0] else 3)
        places.append(made.unpack(tmp_path))
    assert [place.is_dir() for place in places] == [True, False, True, True, True]  # `first` and `others` are alive
    del others, made
    aged(places[3], 2)
    aged(places[2], 3)
    first.unpack(tmp_path)
    assert unpacked(tmp_path).usage().count == 4  # nothing new came
    variants(artifact, 2)[1].unpack(tmp_path)
    assert [place.is_dir() for place in places] == [True, True, False, False, True]


def test_processes_that_unpack_never_take_each_others(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{i}.pock" for i in range(4)]
    for made, file in zip(variants(artifact, 4), files, strict=True):
        made.save(file)
    size = sum(member.size for member in artifact.manifest.members.values())
    monkeypatch.setenv("POCK_CACHE_LIMIT", str(size + size // 2))
    cache, names = tmp_path / "cache", list(map(str, files))
    running = [subprocess.Popen([sys.executable, "-c", UNPACKER, str(cache), str(i), *names]) for i in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert unpacked(cache).usage().count <= 3
    assert not list(cache.glob("work-*"))


def stored(cache: ObjectCache, source: str) -> Path:
    with cache.workspace() as folder:
        (folder / "o").write_text(source)
        return cache.store({"source": source}, folder / "o").parent


def test_compiled_kernels_keep_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCK_CACHE_LIMIT", "256B")  # a byte for each of the 256 folders
    cache = ObjectCache(tmp_path)
    old = [stored(cache, f"old {i}") for i in range(300)]
    for entry in old:
        aged(entry, 90)
    assert cache.find({"source": "old 7"}) is not None
    new = [stored(cache, f"new {i}") for i in range(300)]
    looked_over = {entry.parent for entry in new if entry.name.endswith("0")}
    expected = [entry for entry in old if entry.parent not in looked_over or entry == old[7]]
    assert [entry for entry in old if entry.is_dir()] == expected != old
    assert all(entry.is_dir() for entry in new)


def test_a_limit_that_is_no_size(artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCK_CACHE_LIMIT", "4 gigs")
    with pytest.raises(PockError, match="POCK_CACHE_LIMIT is a size such as 4GiB or 800MB, not '4 gigs'"):
        artifact.unpack(tmp_path)
    assert not list(tmp_path.iterdir())
