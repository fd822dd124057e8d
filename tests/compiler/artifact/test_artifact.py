"""Artifacts: the same bytes each time, whole or absent on disk, and each malformation refused by its own error."""

from __future__ import annotations

import dataclasses
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pockengine import artifact as artifacts
from pockengine.artifact import Artifact
from pockengine.artifact.archive import Held, pack
from pockengine.errors import ArtifactError

Members = dict[str, bytes]


def members_of(path: Path) -> Members:
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def write(path: Path, members: Members) -> None:
    path.write_bytes(b"".join(pack({name: Held(data) for name, data in members.items()})))


def test_round_trip(artifact: Artifact, saved: Path) -> None:
    opened = Artifact.open(saved)
    assert opened.manifest == artifacts.parse(artifact.manifest.to_json())
    assert opened.digest == artifact.digest
    assert opened.read("graph.txt") == b"toy\n"
    assert artifact.summary == {"cache_hits": 3}
    assert opened.summary == artifact.manifest.summary


def test_same_members_same_bytes(artifact: Artifact, saved: Path, tmp_path: Path) -> None:
    Artifact.open(saved).save(tmp_path / "again.pock")
    assert (tmp_path / "again.pock").read_bytes() == saved.read_bytes()


def test_ordinary_zip_tools_read_it(saved: Path) -> None:
    with zipfile.ZipFile(saved) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == sorted(opened.namelist())
        assert opened.getinfo("bin/model").external_attr >> 16 == 0o100755


def test_any_flipped_byte_is_found(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    draw = random.Random(0)
    directory = range(len(data) - 600, len(data))  # structure that no digest covers
    for position in [0, 4, 6, 10, 12, len(data) - 1, *draw.sample(range(len(data)), 12), *draw.sample(directory, 24)]:
        broken = bytearray(data)
        broken[position] ^= 1 << draw.randrange(8)
        path = tmp_path / "broken.pock"
        path.write_bytes(broken)
        with pytest.raises(ArtifactError):
            Artifact.open(path)


def edit_manifest(change: Callable[[dict[str, object]], object]) -> Callable[[Members], None]:
    def edit(members: Members) -> None:
        manifest = json.loads(members["manifest.json"])
        change(manifest)
        members["manifest.json"] = json.dumps(manifest).encode()

    return edit


def put(name: str, data: bytes) -> Callable[[Members], None]:
    return lambda members: members.__setitem__(name, data)


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda m: m.pop("manifest.json"), artifacts.MissingManifestError, "has no manifest.json"),
        (put("manifest.json", b"{"), artifacts.BadManifestError, "not valid JSON"),
        (put("manifest.json", b"[]"), artifacts.BadManifestError, "not a JSON object"),
        (edit_manifest(lambda m: m.update(format=1)), artifacts.UnsupportedFormatError, "has format 1"),
        (edit_manifest(lambda m: m.pop("recipe")), artifacts.BadManifestError, "lacks 'recipe'"),
        (edit_manifest(lambda m: m.update(recipes=1)), artifacts.BadManifestError, "did you mean 'recipe'"),
        (edit_manifest(lambda m: m.update(threads="4")), artifacts.BadManifestError, "threads"),
        (edit_manifest(lambda m: m.update(inputs=[{}])), artifacts.BadManifestError, r"inputs\[0\] lacks"),
        (edit_manifest(lambda m: m.update(members={})), artifacts.BadManifestError, "is no member"),
        (lambda m: m.pop("params.safetensors"), artifacts.MissingMemberError, "lacks 'params.safetensors'"),
        (put("extra.txt", b""), artifacts.ExtraMemberError, "holds 'extra.txt'"),
        (put("../evil", b""), artifacts.UnsafePathError, "unsafe name '../evil'"),
        (put("/evil", b""), artifacts.UnsafePathError, "unsafe name"),
        (put("bin\\evil", b""), artifacts.UnsafePathError, "unsafe name"),
        (put("graph.txt", b"coy\n"), artifacts.DigestMismatchError, "'graph.txt'"),
    ],
)
def test_each_malformation_has_its_error(
    edit: Callable[[Members], object], error: type[ArtifactError], message: str, saved: Path
) -> None:
    members = members_of(saved)
    edit(members)
    write(saved, members)
    with pytest.raises(error, match=message):
        Artifact.open(saved)


def test_not_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "text.pock"
    path.write_text("hello")
    with pytest.raises(artifacts.NotAnArchiveError, match="not an artifact"):
        Artifact.open(path)


def test_truncated(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:-100])
    with pytest.raises(artifacts.NotAnArchiveError):
        Artifact.open(saved)


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="there is no artifact"):
        Artifact.open(tmp_path / "none.pock")


def test_bytes_after_the_end(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() + b"x")
    with pytest.raises(ArtifactError):
        Artifact.open(saved)


def test_duplicate_member(saved: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(saved, "a") as opened:
        opened.writestr("graph.txt", b"toy\n")
    with pytest.raises(artifacts.DuplicateMemberError, match="'graph.txt' twice"):
        Artifact.open(saved)


def test_recompressed_archive_is_refused(saved: Path) -> None:
    members = members_of(saved)
    with zipfile.ZipFile(saved, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in members.items():
            opened.writestr(name, data)
    with pytest.raises(artifacts.AlteredArchiveError):
        Artifact.open(saved)


def test_failed_save_leaves_nothing(artifact: Artifact, tmp_path: Path) -> None:
    class Broken:
        def chunks(self) -> None:
            raise OSError(28, "No space left on device")

    broken = dataclasses.replace(artifact, contents={**artifact.contents, "graph.txt": cast(Any, Broken())})
    (tmp_path / "toy.pock").write_bytes(b"old")
    with pytest.raises(OSError, match="No space"):
        broken.save(tmp_path / "toy.pock")
    assert [path.name for path in tmp_path.iterdir()] == ["toy.pock"]
    assert (tmp_path / "toy.pock").read_bytes() == b"old"


def test_unpacked_once_and_repaired(artifact: Artifact, tmp_path: Path) -> None:
    place = artifact.unpack(tmp_path)
    assert artifact.unpack(tmp_path) == place
    assert (place / "bin" / "model").stat().st_mode & 0o111
    (place / "params.safetensors").write_bytes(b"damaged")
    assert artifact.unpack(tmp_path) == place
    assert (place / "params.safetensors").read_bytes() == artifact.read("params.safetensors")
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_what_another_process_unpacked_stays_in_place(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files = Artifact._write_files
    others: list[int] = []

    def late(self: Artifact, folder: Path) -> None:
        """Another process begins and ends while this one writes."""
        monkeypatch.setattr(Artifact, "_write_files", write_files)
        others.append(self.unpack(tmp_path).stat().st_ino)
        write_files(self, folder)

    monkeypatch.setattr(Artifact, "_write_files", late)
    place = artifact.unpack(tmp_path)
    assert [place.stat().st_ino] == others
    assert [path.name for path in place.parent.iterdir()] == [place.name]
