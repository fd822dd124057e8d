"""An artifact: what compiling gives and a device runs. In memory after a build, on disk as `NAME.pock`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pockengine.artifact import archive
from pockengine.artifact.archive import Content, Held
from pockengine.artifact.errors import (
    DigestMismatchError,
    ExtraMemberError,
    MissingManifestError,
    MissingMemberError,
)
from pockengine.artifact.manifest import Json, Manifest, Member, parse
from pockengine.codegen.files import write_whole
from pockengine.codegen.folder_cache import (
    FolderCache,
    Hold,
    default_folder,
    drop_abandoned,
    limit_bytes,
    use,
    workspace,
)
from pockengine.errors import ArtifactError
from pockengine.ir import Array

if TYPE_CHECKING:
    from pockengine.artifact.session import Session

MANIFEST = "manifest.json"
_IDLE = 60.0
"""Seconds for whoever was only told where the files are to start a program from there."""


@dataclass(frozen=True)
class Artifact:
    """A manifest and the files it describes. `summary` is what `pock compile --json` prints; after a build it also has
    `compile_seconds` and `cache_hits`, which are no part of the artifact."""

    manifest: Manifest
    contents: Mapping[str, Content]
    summary: Json
    _holds: dict[Path, Hold] = field(default_factory=dict, init=False, repr=False, compare=False)

    @staticmethod
    def create(manifest: Manifest, members: Mapping[str, bytes | Content], summary: Json | None = None) -> Artifact:
        """An artifact of these files; their digests go into the manifest."""
        contents: dict[str, Content] = {}
        digests = {}
        for name, one in sorted(members.items()):
            content, sha = archive.summed(Held(one) if isinstance(one, bytes) else one)
            contents[name], digests[name] = content, Member(sha, content.size)
        complete = manifest.with_members(digests)
        return Artifact(complete, contents, manifest.summary if summary is None else summary)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> Artifact:
        """Reads and verifies an artifact: structure, manifest, every member's digest, and that nothing else changed.
        Raises a subclass of ArtifactError for each thing that can be wrong."""
        file = Path(path)
        if not file.is_file():
            raise ArtifactError(f"there is no artifact at {file}")
        contents: dict[str, Content] = dict(archive.read(file))
        stated = contents.pop(MANIFEST, None)
        if stated is None:
            raise MissingManifestError(f"{file} has no {MANIFEST}: it is not an artifact")
        manifest = parse(b"".join(stated.chunks()))
        _verify(file, manifest, contents)
        archive.check_canonical(file, {**contents, MANIFEST: stated})
        return Artifact(manifest, contents, manifest.summary)

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest, which has the digests of everything else: equal artifacts have equal digests."""
        return hashlib.sha256(self.manifest.to_json()).hexdigest()

    def read(self, member: str) -> bytes:
        """The bytes of a member. Raises KeyError for names the manifest does not list."""
        return b"".join(self.contents[member].chunks())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the archive; it appears at `path` whole or not at all. Raises OSError."""
        write_whole(Path(path), archive.pack({**self.contents, MANIFEST: Held(self.manifest.to_json())}))

    def export(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        *,
        weights: str | os.PathLike[str] | Mapping[str, Array] | None = None,
        merge: bool = False,
        adapters: bool = False,
    ) -> list[Path]:
        """Write the fine-tuned model; returns the files written.

        format    `safetensors`: all parameters, named as in the model's `state_dict`; `onnx`: the model to predict
                  with; default: by the ending of `path`
        weights   what training saved (a safetensors file, `session.state()`), all of it or a part; default: what was
                  compiled in
        merge     add the adapters to the weights beside which they were trained
        adapters  only the adapters, with rank and alpha in the header

        An ONNX model whose weights exceed 2 GB keeps them in `NAME.data` beside it. Raises PockError, DataError,
        UnsupportedOperatorError or OSError."""
        from pockengine.artifact.export import export

        given = weights if weights is None or isinstance(weights, Mapping) else Path(weights)
        return export(self, Path(path), format, given, merge, adapters)

    def unpack(self, folder: Path | None = None) -> Path:
        """Puts the files into a folder named by their digest below `folder` (default: the cache folder), once, and
        returns it. Files that are there already are verified again.

        They stay for as long as this object lives, at least a minute. Later they may go to make room: when unpacked
        artifacts take more than `POCK_CACHE_LIMIT` (4 GiB), the least recently used do. That harms no session or
        program that runs: they open all they need when they start. Raises OSError, PockError."""
        cache = unpacked(folder or default_folder())
        place = cache.folder / self.digest
        hold = use(place)
        if hold is None or not self._is_intact(place):
            limit = limit_bytes()
            with workspace(cache.root) as work:
                self._write_files(work / "new")
                hold = cache.publish(work / "new", place, lambda: self._is_intact(place))
            cache.shrink(limit, place)
            drop_abandoned(cache.root)
        self._holds[place] = hold
        return place

    def load(self, threads: int = 0, seed: int = 0) -> Session:
        """A session on this machine; `threads` 0 takes as many as the artifact allows and the machine has, `seed`
        decides what dropout and augmentation draw. Raises WrongMachineError when the artifact is for another kind of
        machine."""
        from pockengine.artifact.session import Session

        return Session(self.manifest, self.unpack, threads, seed)

    def _write_files(self, folder: Path) -> None:
        for name, content in self.contents.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as output:
                for piece in content.chunks():
                    output.write(piece)
            if name == self.manifest.entry_points.executable:
                file.chmod(0o755)

    def _is_intact(self, folder: Path) -> bool:
        """Whether a folder holds the members' bytes."""
        for name, member in self.manifest.members.items():
            try:
                with (folder / name).open("rb") as file:
                    if hashlib.file_digest(file, "sha256").hexdigest() != member.sha256:
                        return False
            except OSError:
                return False
        return True


def unpacked(root: Path) -> FolderCache:
    """The unpacked artifacts of a cache folder."""
    return FolderCache(root, "artifacts", _IDLE)


def _verify(file: Path, manifest: Manifest, contents: Mapping[str, Content]) -> None:
    for name in manifest.members:
        if name not in contents:
            raise MissingMemberError(f"{file} lacks '{name}', which its manifest lists")
    for name, content in contents.items():
        if name not in manifest.members:
            raise ExtraMemberError(f"{file} holds '{name}', which its manifest does not list")
        stated = manifest.members[name]
        if archive.digest(content) != (stated.sha256, stated.size):
            raise DigestMismatchError(
                f"'{name}' in {file} is damaged: its digest is not the manifest's; fetch it again"
            )
