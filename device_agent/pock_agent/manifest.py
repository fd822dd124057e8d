"""The signed work manifest: its fields, read strictly. An unknown, missing or wrongly typed field is refused.

Must not know where a manifest came from; signature, counter and expiry are `envelope`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pock_agent.times import parse_time

VERSION = 1
ENTRIES = ("train", "eval", "bench")
MAX_BLOB_BYTES = 1 << 40
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MEMBER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
T = TypeVar("T")


class Malformed(ValueError):
    """A manifest that does not follow the contract; the message names the field."""


@dataclass(frozen=True)
class Blob:
    """Content by its SHA-256 (64 lower-case hexadecimal digits) and size in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Artifact:
    """What to run: the members by their path inside the artifact."""

    digest: str
    name: str
    target: str
    executable: str
    members: Mapping[str, Blob]


@dataclass(frozen=True)
class Run:
    """How to run it. With `threads` 0 the executable chooses."""

    entry: str
    steps: int
    threads: int
    seed: int
    save_weights: bool


@dataclass(frozen=True)
class Limits:
    """Seconds of the whole job, bytes the child may use, bytes the plan needs; 0 where the service sets none."""

    wall_seconds: int
    memory_bytes: int
    required_bytes: int


@dataclass(frozen=True)
class Manifest:
    """One job for one device. Times are seconds since the epoch."""

    job_id: str
    run_id: str
    device_id: str
    attempt: int
    fence: int
    counter: int
    issued_at: float
    expires_at: float
    artifact: Artifact
    train_data: Blob | None
    eval_data: Blob | None
    run: Run
    limits: Limits


class _Fields:
    """An object of the manifest, of which every field has to be asked for."""

    def __init__(self, value: object, path: str, known: str) -> None:
        if not isinstance(value, dict):
            raise Malformed(f"{path} is not an object")
        names = known.split()
        unknown = sorted(set(value) - set(names))
        if unknown:
            raise Malformed(f"{path} has the unknown field {unknown[0]!r}; update this agent if the service is newer")
        missing = [name for name in names if name not in value]
        if missing:
            raise Malformed(f"{path} lacks the field {missing[0]!r}")
        self._value, self._path = value, path

    def raw(self, name: str) -> object:
        return self._value[name]

    def at(self, name: str) -> str:
        return f"{self._path}.{name}"

    def typed(self, name: str, kind: type[T]) -> T:
        value = self._value[name]
        if type(value) is not kind:  # not isinstance: true is no integer here
            raise Malformed(f"{self.at(name)} is {value!r} where {kind.__name__} was expected")
        return value

    def integer(self, name: str, low: int = 0, high: int = (1 << 63) - 1) -> int:
        value = self.typed(name, int)
        if not low <= value <= high:
            raise Malformed(f"{self.at(name)} is {value}, outside {low}..{high}")
        return value

    def matching(self, name: str, pattern: re.Pattern[str], what: str) -> str:
        value = self.typed(name, str)
        if not pattern.fullmatch(value):
            raise Malformed(f"{self.at(name)} is {value!r}, which is no {what}")
        return value

    def time(self, name: str) -> float:
        try:
            return parse_time(self._value[name])
        except ValueError as error:
            raise Malformed(f"{self.at(name)}: {error}") from error

    def optional(self, name: str, read: Callable[[object, str], T]) -> T | None:
        value = self._value[name]
        return None if value is None else read(value, self.at(name))


def parse(value: object) -> Manifest:
    """Read the payload of an envelope. Malformed names the first field that breaks the contract."""
    if isinstance(value, dict) and value.get("version") != VERSION:
        raise Malformed(
            f"the manifest has version {value.get('version')!r}, this agent knows {VERSION}: update the agent"
        )
    top = _Fields(
        value,
        "manifest",
        "version job_id run_id device_id attempt fence counter issued_at expires_at artifact data run limits",
    )
    data = _Fields(top.raw("data"), "manifest.data", "train eval")
    manifest = Manifest(
        job_id=top.matching("job_id", _IDENTIFIER, "identifier"),
        run_id=top.matching("run_id", _IDENTIFIER, "identifier"),
        device_id=top.matching("device_id", _IDENTIFIER, "identifier"),
        attempt=top.integer("attempt", low=1),
        fence=top.integer("fence"),
        counter=top.integer("counter"),
        issued_at=top.time("issued_at"),
        expires_at=top.time("expires_at"),
        artifact=_artifact(top.raw("artifact")),
        train_data=data.optional("train", _blob),
        eval_data=data.optional("eval", _blob),
        run=_run(top.raw("run")),
        limits=_limits(top.raw("limits")),
    )
    _check_data(manifest)
    return manifest


def _artifact(value: object) -> Artifact:
    fields = _Fields(value, "manifest.artifact", "digest name target executable members")
    listed = fields.typed("members", dict)
    for name in listed:
        if not isinstance(name, str) or not _MEMBER.fullmatch(name) or len(name) > 200:
            raise Malformed(f"manifest.artifact.members has {name!r}, which is no plain relative path")
    members = {name: _blob(blob, f"manifest.artifact.members[{name!r}]") for name, blob in listed.items()}
    executable = fields.typed("executable", str)
    if executable not in members:
        raise Malformed(f"manifest.artifact.executable is {executable!r}, which is not one of its members")
    return Artifact(
        digest=fields.matching("digest", _DIGEST, "SHA-256 digest"),
        name=fields.typed("name", str),
        target=fields.matching("target", _IDENTIFIER, "name of a target"),
        executable=executable,
        members=members,
    )


def _blob(value: object, path: str) -> Blob:
    fields = _Fields(value, path, "sha256 size")
    return Blob(fields.matching("sha256", _DIGEST, "SHA-256 digest"), fields.integer("size", high=MAX_BLOB_BYTES))


def _run(value: object) -> Run:
    fields = _Fields(value, "manifest.run", "entry steps threads seed save_weights")
    entry = fields.typed("entry", str)
    if entry not in ENTRIES:
        raise Malformed(f"manifest.run.entry is {entry!r}; this agent knows {', '.join(ENTRIES)}")
    return Run(
        entry=entry,
        steps=fields.integer("steps", low=1),
        threads=fields.integer("threads", high=1024),
        seed=fields.integer("seed"),
        save_weights=fields.typed("save_weights", bool),
    )


def _limits(value: object) -> Limits:
    fields = _Fields(value, "manifest.limits", "wall_seconds memory_bytes required_bytes")
    return Limits(*(fields.integer(name) for name in ("wall_seconds", "memory_bytes", "required_bytes")))


def _check_data(manifest: Manifest) -> None:
    entry = manifest.run.entry
    if entry == "train" and manifest.train_data is None:
        raise Malformed("manifest.data.train is null, and the entry is train")
    if entry == "eval" and manifest.train_data is None and manifest.eval_data is None:
        raise Malformed("manifest.data names no dataset, and the entry is eval")
