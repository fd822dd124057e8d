"""Looks at what a child left, and stores it if it is an artifact. Whoever wrote the model may have made the child leave
anything: links, devices, archives that unpack to more than they are, manifests that no page could show.

An artifact is a zip archive in its plainest form (docs/reference/binary.md): stored members, one after the other, the
directory, an end record without a comment. Nothing here unpacks, so nothing can be larger than the file.
"""

import json
import os
import re
import stat
import struct
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError

from pock_server.artifacts.schemas import ArtifactOut
from pock_server.artifacts.service import MANIFEST
from pock_server.blobs.store import BlobStore
from pock_server.http.fields import check_json
from pock_server.runner.claims import Built

_CHUNK = 1 << 20
_END = struct.Struct("<4sHHHHIIH")
_END_SIGNATURE = b"PK\5\6"
_MEMBERS = 1000
_DIRECTORY_BYTES = 1 << 20
_MANIFEST_BYTES = 32 << 20
_MANIFEST_VALUES = 1_000_000
"""Numbers, texts, lists and objects in a manifest: some hundred bytes of memory each."""
_SAFE = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
_NAME_CHARACTERS = 200
_MACHINE_CODE = "c"
"""The backend of artifacts that name none."""
_ON_DEVICES = (_MACHINE_CODE, "cuda", "opencl")
"""Backends whose artifacts have a program that devices run."""
_INPUTS = 1000
_DAMAGE = (zipfile.BadZipFile, EOFError, struct.error, IndexError, NotImplementedError, RuntimeError, ValueError)
"""What zipfile raises on damaged archives, depending on where the damage is."""


class NoArtifact(Exception):
    """The child left no artifact, or something else under its name; the message ends the sentence "the build …"."""


def harvest(folder: Path, scratch: Path, summary: dict[str, Any], store: BlobStore, limit: int) -> Built:
    """Store `out/artifact.pock` of a child's folder, whole and each member, through files in `scratch` (which no child
    sees). `summary` was checked; `limit` is in bytes. Raises `NoArtifact`, OSError. The child must have ended."""
    left = Left("artifact.pock", "artifact", limit, " (POCK_MAX_ARTIFACT_BYTES)")
    with opened(folder, left) as file, _archive(file) as archive:
        members = _members(archive, file)
        manifest = _manifest(archive)
        stored = {}
        for info in members:
            with archive.open(info) as content:
                digest, size = put(content, scratch, store)
            stored[info.filename] = {"sha256": digest, "size": size}
        file.seek(0)
        digest, size = put(file, scratch, store)
    executable, inputs = _interface(manifest, stored, {"digest": digest, "size": size})
    return Built(digest, size, stored, executable, inputs, summary)


@dataclass(frozen=True)
class Left:
    """A file that a child leaves in `out`: its name, what people call it, its most bytes, and what they say them by."""

    name: str
    noun: str
    limit: int
    setting: str = ""


@contextmanager
def opened(folder: Path, left: Left) -> Iterator[BinaryIO]:
    """The file, reached without following a link, and only if it is a file of its own. Raises `NoArtifact`."""
    try:
        out = os.open(folder / "out", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            descriptor = os.open(left.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=out)
        finally:
            os.close(out)
    except OSError as error:
        raise NoArtifact(f"left no {left.noun} ({error.strerror})") from None
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise NoArtifact(f"left something else than a file as its {left.noun}")
    with os.fdopen(descriptor, "rb") as file:
        if found.st_size > left.limit:
            raise NoArtifact(f"left as its {left.noun} {found.st_size} bytes; the limit is {left.limit}{left.setting}")
        yield file


@contextmanager
def _archive(file: BinaryIO) -> Iterator[zipfile.ZipFile]:
    """The archive, if its directory is small enough to be read at all."""
    size = file.seek(0, os.SEEK_END)
    if size < _END.size:
        raise NoArtifact("left no archive as its artifact")
    file.seek(-_END.size, os.SEEK_END)
    signature, disk, first, here, count, directory, offset, comment = _END.unpack(file.read(_END.size))
    plain = signature == _END_SIGNATURE and disk == first == comment == 0 and here == count
    if not plain or offset + directory + _END.size != size:
        raise NoArtifact("left no archive of the artifacts' plain form")
    if count > _MEMBERS or directory > _DIRECTORY_BYTES:
        raise NoArtifact(f"left an archive of {count} members; an artifact has {_MEMBERS} at most")
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except _DAMAGE as error:
        raise NoArtifact(f"left a damaged archive ({error})") from None


def _members(archive: zipfile.ZipFile, file: BinaryIO) -> list[zipfile.ZipInfo]:
    found = archive.infolist()
    names = [info.filename for info in found]
    if len(set(names)) != len(names):
        raise NoArtifact("left an archive with the same name twice")
    for info in found:
        name = info.filename
        if len(name) > _NAME_CHARACTERS or not _SAFE.fullmatch(name) or {".", ".."} & set(name.split("/")):
            raise NoArtifact(f"left an archive with the unsafe name {name[:_NAME_CHARACTERS]!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
            raise NoArtifact(f"left an archive whose member {name} is not simply stored")
    if sum(info.file_size for info in found) > file.seek(0, os.SEEK_END):
        raise NoArtifact("left an archive whose members overlap")
    return found


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        info = archive.getinfo(MANIFEST)
    except KeyError:
        raise NoArtifact(f"left an archive without {MANIFEST}") from None
    if info.file_size > _MANIFEST_BYTES:
        raise NoArtifact(f"left a manifest of {info.file_size} bytes; the limit is {_MANIFEST_BYTES}")
    text = archive.read(info)
    # Each value but the first follows one of these: counted before parsing, which costs far more memory than the text.
    if sum(text.count(mark) for mark in (b",", b":", b"[", b"{")) > _MANIFEST_VALUES:
        raise NoArtifact(f"left a manifest of more than {_MANIFEST_VALUES} values")
    try:
        manifest = json.loads(text)
        check_json(manifest)
    except (ValueError, RecursionError) as error:
        raise NoArtifact(f"left a manifest that cannot be read ({error})") from None
    if not isinstance(manifest, dict):
        raise NoArtifact("left a manifest that is no object")
    return manifest


def _interface(manifest: dict[str, Any], members: dict[str, Any], place: dict[str, Any]) -> tuple[str, list[Any]]:
    """The program's member and the step's inputs, from a manifest that the service can show."""
    try:
        shown = ArtifactOut.model_validate({**manifest, **place, "build_id": "0" * 8 + "-0000" * 3 + "-" + "0" * 12})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise NoArtifact(f"left a manifest that does not fit at {where}: {first['msg']}") from None
    if manifest.get("backend", _MACHINE_CODE) not in _ON_DEVICES:
        raise NoArtifact(f"left an artifact of the backend {manifest['backend']!r:.40}, which devices do not run")
    executable = shown.entry_points.get("executable", "")
    if executable not in members:
        raise NoArtifact("left a manifest that names no program of the archive")
    if len(shown.inputs) > _INPUTS:
        raise NoArtifact(f"left a manifest with {len(shown.inputs)} inputs; the limit is {_INPUTS}")
    return executable, list(manifest["inputs"])


def put(content: Any, scratch: Path, store: BlobStore) -> tuple[str, int]:
    """Store what can be read, through a file in `scratch`: its digest and its size."""
    with tempfile.NamedTemporaryFile(dir=scratch) as file:
        while chunk := content.read(_CHUNK):
            file.write(chunk)
        file.flush()
        return store.put_file(Path(file.name))
