"""The signed work manifest: its fields, read strictly. An unknown, missing or wrongly typed field is refused.

Must not know where a manifest came from; signature, counter and expiry are `envelope`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pock_agent.disk.blobs import Blob
from pock_agent.disk.local_data import NAME as LOCAL_NAME
from pock_agent.trust.fields import Fields, Malformed

VERSION = 1
MAX_BLOB_BYTES = 1 << 40
MAX_WARMUP_STEPS = 1_000_000
MAX_REPEATS = 100
MAX_COOL_DOWN_SECONDS = 3600
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MEMBER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Entry(str, Enum):
    """What an executable can be asked to do; its first argument."""

    TRAIN = "train"
    """Train, and report each step."""
    EVAL = "eval"
    """Compute the loss on a dataset; nothing is trained."""
    BENCH = "bench"
    """Time training steps."""


class WeightsForm(str, Enum):
    """As what trained weights go back to the service."""

    FULL = "safetensors"
    """All of them."""
    DELTA = "delta"
    """What changed of the artifact's: `pock_agent.weights`."""


@dataclass(frozen=True)
class Artifact:
    """What to run: the members by their path inside the artifact."""

    digest: str
    name: str
    target: str
    executable: str
    members: Mapping[str, Blob]


@dataclass(frozen=True)
class HeldOut:
    """A share of the data that is not trained on but evaluated, drawn by `seed`: every so many steps, or with `every` 0
    after each epoch. With `patience` (0: none) the training ends after so many evaluations without a better one."""

    share: float
    seed: int
    every: int
    patience: int


@dataclass(frozen=True)
class RunOptions:
    """How to run it. With `threads` 0 the executable chooses; with `profile` it times each kernel."""

    entry: Entry
    steps: int
    threads: int
    seed: int
    save_weights: bool
    weights_form: WeightsForm
    held_out: HeldOut | None = None
    profile: bool = False


@dataclass(frozen=True)
class LocalSource:
    """Data that lies on this device, by the name that its owner gave it, and what it was when the run was asked for."""

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Limits:
    """Seconds of the whole job, bytes the child may use, bytes the plan needs; 0 where the service sets none."""

    wall_seconds: int
    memory_bytes: int
    required_bytes: int


@dataclass(frozen=True)
class Bench:
    """How a benchmark is repeated: steps before those that count, processes, and the longest pause between two."""

    warmup_steps: int
    repeats: int
    cool_down_seconds: int


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
    train_data: Blob | LocalSource | None
    eval_data: Blob | LocalSource | None
    initial_weights: Blob | None
    run: RunOptions
    limits: Limits
    bench: Bench | None = None

    @property
    def steps_of_process(self) -> int:
        """Training steps that one process makes, those of a warm-up among them."""
        return self.run.steps + (self.bench.warmup_steps if self.bench else 0)


def parse(value: object) -> Manifest:
    """Read the payload of an envelope. Malformed names the first field that breaks the contract."""
    if isinstance(value, dict) and value.get("version") != VERSION:
        raise Malformed(
            f"the manifest has version {value.get('version')!r}, this agent knows {VERSION}: update the agent"
        )
    top = Fields(
        value,
        "manifest",
        "version job_id run_id device_id attempt fence counter issued_at expires_at artifact data run limits",
        extra="bench",
    )
    data = Fields(top.raw("data"), "manifest.data", "train eval", "weights")
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
        train_data=data.optional("train", _data),
        eval_data=data.optional("eval", _data),
        initial_weights=data.optional("weights", _blob),
        run=_run_options(top.raw("run")),
        limits=_limits(top.raw("limits")),
        bench=top.optional("bench", _bench),
    )
    _check_data(manifest)
    _check_bench(manifest)
    return manifest


def _artifact(value: object) -> Artifact:
    fields = Fields(value, "manifest.artifact", "digest name target executable members")
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
    fields = Fields(value, path, "sha256 size")
    return Blob(fields.matching("sha256", _DIGEST, "SHA-256 digest"), fields.integer("size", high=MAX_BLOB_BYTES))


def _data(value: object, path: str) -> Blob | LocalSource:
    if not isinstance(value, dict) or "local" not in value:
        return _blob(value, path)
    fields = Fields(value, path, "local sha256 size")
    name = fields.matching("local", LOCAL_NAME, "name of local data")
    blob = _blob({key: value[key] for key in ("sha256", "size")}, path)
    return LocalSource(name, blob.sha256, blob.size)


def _run_options(value: object) -> RunOptions:
    fields = Fields(value, "manifest.run", "entry steps threads seed save_weights", "weights_form held_out profile")
    return RunOptions(
        entry=_entry(fields.typed("entry", str)),
        steps=fields.integer("steps", low=1),
        threads=fields.integer("threads", high=1024),
        seed=fields.integer("seed"),
        save_weights=fields.typed("save_weights", bool),
        weights_form=fields.optional("weights_form", _weights_form) or WeightsForm.FULL,
        held_out=fields.optional("held_out", _held_out),
        profile=fields.optional("profile", _flag) or False,
    )


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise Malformed(f"{path} is {value!r}; true or false is expected")
    return value


def _held_out(value: object, path: str) -> HeldOut:
    fields = Fields(value, path, "share seed every patience")
    numbers = (fields.integer(name) for name in ("seed", "every", "patience"))
    return HeldOut(fields.share("share"), *numbers)


def _entry(text: str) -> Entry:
    try:
        return Entry(text)
    except ValueError:
        known = ", ".join(entry.value for entry in Entry)
        raise Malformed(f"manifest.run.entry is {text!r}; this agent knows {known}") from None


def _weights_form(value: object, path: str) -> WeightsForm:
    known = {form.value: form for form in WeightsForm}
    if not isinstance(value, str) or value not in known:
        raise Malformed(f"{path} is {value!r}; this agent knows {', '.join(known)}")
    return known[value]


def _limits(value: object) -> Limits:
    fields = Fields(value, "manifest.limits", "wall_seconds memory_bytes required_bytes")
    return Limits(*(fields.integer(name) for name in ("wall_seconds", "memory_bytes", "required_bytes")))


def _bench(value: object, path: str) -> Bench:
    fields = Fields(value, path, "warmup_steps repeats cool_down_seconds")
    return Bench(
        warmup_steps=fields.integer("warmup_steps", high=MAX_WARMUP_STEPS),
        repeats=fields.integer("repeats", low=1, high=MAX_REPEATS),
        cool_down_seconds=fields.integer("cool_down_seconds", high=MAX_COOL_DOWN_SECONDS),
    )


def _check_bench(manifest: Manifest) -> None:
    if manifest.bench is not None and manifest.run.entry is not Entry.BENCH:
        raise Malformed(f"manifest.bench is given, and the entry is {manifest.run.entry.value}")


def _check_data(manifest: Manifest) -> None:
    entry = manifest.run.entry
    if manifest.run.held_out is not None and entry is not Entry.TRAIN:
        raise Malformed(f"manifest.run.held_out is given, and the entry is {entry.value}")
    if manifest.run.profile and entry is Entry.EVAL:
        raise Malformed("manifest.run.profile is true, and the entry is eval")
    if entry is Entry.TRAIN and manifest.train_data is None:
        raise Malformed("manifest.data.train is null, and the entry is train")
    if entry is Entry.EVAL and manifest.train_data is None and manifest.eval_data is None:
        raise Malformed("manifest.data names no dataset, and the entry is eval")
