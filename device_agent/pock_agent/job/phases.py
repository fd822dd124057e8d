"""The phases of a job: which command each one is, what it may use, and what its exit means.

`docs/reference/binary.md` is the contract with the executable. Paths in commands are relative to the job's folder: the
unprivileged child may be unable to reach that folder by its absolute path.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pock_agent.confinement.child import Child, Confinement, Exit, unprivileged_user
from pock_agent.device.facts import usable_cpus
from pock_agent.device.health import free_memory, total_memory
from pock_agent.device.target import Emulation, emulation_for
from pock_agent.disk.blobs import Blob
from pock_agent.errors import FailureCode, JobFailed
from pock_agent.job.control import JobControl
from pock_agent.job.states import State
from pock_agent.settings import MIB
from pock_agent.trust.manifest import Manifest
from pock_agent.values import JsonObject

PHASES = (State.EVAL_BEFORE, State.TRAIN, State.EVAL_AFTER)
WEIGHTS = "out/weights.safetensors"
CHECKPOINT = "out/checkpoint.safetensors"
_CHECKPOINT_STEPS = 50  # a shorter training is repeated rather than written down on the way
_EVENT_BYTES = 64 * 1024  # an event is a few numbers; only the last one carries the report
_CHECKPOINTS = 20  # at most about this many are written in a longer one
_PARAMETERS = {"params.safetensors": "--params", "consts.safetensors": "--consts"}
_EMULATOR_BYTES = 512 * MIB  # the emulator's translated code comes on top of what the program itself uses
_EXIT_MEANING = {
    2: (FailureCode.BAD_ARGUMENT, "did not accept its command line"),
    3: (FailureCode.BAD_DATA, "did not accept its data or weights"),
    4: (FailureCode.DISK_FULL, "could not read or write a file"),
    5: (FailureCode.OUT_OF_MEMORY, "had too little memory"),
    6: (FailureCode.BAD_RECIPE, "diverged: the loss is not finite; use a smaller learning rate"),
}


@dataclass(frozen=True)
class Workplace:
    """The job's folder, laid out: the artifact and the data read-only, `out/` writable for the child."""

    folder: Path
    manifest: Manifest
    emulation: Emulation

    def command(self, phase: State, program: str, resume: bool) -> list[str]:
        """The command line of one phase; `program` is the entry of the executable. `resume` a training if it can be."""
        run, members = self.manifest.run, self.manifest.artifact.members
        command = [*self.emulation.prefix, f"./artifact/{self.manifest.artifact.executable}", program]
        data = self._data(phase)
        if data is not None:
            command += ["--data", data]
        for member, option in _PARAMETERS.items():
            if member in members:
                command += [option, f"artifact/{member}"]
        command += ["--report", f"out/{phase.value}.json"]
        if run.threads:
            command += ["--threads", str(run.threads)]
        if program in ("train", "bench"):
            command += ["--steps", str(run.steps)]
        if program == "train":
            command += ["--seed", str(run.seed), *self._checkpoint(resume)]
            if run.save_weights or self.manifest.eval_data is not None:
                command += ["--save", WEIGHTS]
        if phase is State.EVAL_AFTER:
            command += ["--load", WEIGHTS]
        return command

    def _checkpoint(self, resume: bool) -> list[str]:
        """Options that let a long training go on after a restart."""
        steps = self.manifest.run.steps
        if steps <= _CHECKPOINT_STEPS:
            return []
        every = max(_CHECKPOINT_STEPS, math.ceil(steps / _CHECKPOINTS))
        options = ["--checkpoint", CHECKPOINT, "--checkpoint-every", str(every)]
        return [*options, "--resume", CHECKPOINT] if resume and (self.folder / CHECKPOINT).exists() else options

    def _data(self, phase: State) -> str | None:
        evaluates = phase is not State.TRAIN
        if evaluates and self.manifest.eval_data is not None:
            return "data/eval.safetensors"
        return None if self.manifest.train_data is None else "data/train.safetensors"


def program_of(phase: State, manifest: Manifest) -> str | None:
    """The executable's entry for a phase of this job; None when the job has no such phase."""
    entry = manifest.run.entry
    if phase is State.TRAIN:
        return None if entry == "eval" else entry
    if entry == "train":
        return "eval" if manifest.eval_data is not None else None
    return "eval" if entry == "eval" and phase is State.EVAL_BEFORE else None


def needed_blobs(manifest: Manifest) -> dict[str, Blob]:
    """What has to be on the device, by its place in the job's folder."""
    members = manifest.artifact.members
    wanted = [manifest.artifact.executable, *(name for name in _PARAMETERS if name in members)]
    placed = {f"artifact/{name}": members[name] for name in wanted}
    for name, blob in (("train", manifest.train_data), ("eval", manifest.eval_data)):
        if blob is not None:
            placed[f"data/{name}.safetensors"] = blob
    return placed


def lay_out(folder: Path, manifest: Manifest, files: Mapping[Blob, Path]) -> Workplace:
    """Place verified blobs in the job's folder. The executable is copied, large files are linked where possible."""
    for name in ("artifact", "data"):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(exist_ok=True, mode=0o755)
    os.chmod(folder, 0o755)
    executable = f"artifact/{manifest.artifact.executable}"
    for name, blob in needed_blobs(manifest).items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        if name == executable:
            shutil.copyfile(files[blob], place)
            os.chmod(place, 0o555)
        else:
            _link(files[blob], place)
    output = folder / "out"
    output.mkdir(exist_ok=True, mode=0o700)
    user = unprivileged_user()
    if user is not None:
        os.chown(output, *user)
    return Workplace(folder, manifest, emulation_for(folder / executable))


def _link(source: Path, place: Path) -> None:
    try:
        os.link(source, place)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, place)
        os.chmod(place, 0o444)


def check_memory(manifest: Manifest) -> None:
    """Refuse a plan that needs more memory than is free now, instead of letting the device swap or kill."""
    free = free_memory()
    available = total_memory() if free is None else free
    if manifest.limits.required_bytes > available:
        raise JobFailed(
            FailureCode.DEVICE_MEMORY,
            f"the plan needs {manifest.limits.required_bytes / MIB:.1f} MiB and {available / MIB:.1f} MiB are free "
            "here; build with a smaller batch or train fewer layers, or close other programs on the device",
        )


def confinement_of(workplace: Workplace, wall_seconds: float) -> Confinement:
    """The limits of a phase. Files may grow to weights, optimizer state and a checkpoint of both, and then some."""
    limits, run = workplace.manifest.limits, workplace.manifest.run
    parameters = sum(blob.size for name, blob in workplace.manifest.artifact.members.items() if name in _PARAMETERS)
    memory = limits.memory_bytes or (free_memory() or total_memory())
    return Confinement(
        memory_bytes=memory + (_EMULATOR_BYTES if workplace.emulation.emulated else 0),
        cpu_seconds=math.ceil(wall_seconds * (run.threads or usable_cpus())) + 10,
        file_bytes=8 * parameters + 64 * MIB,
    )


def run_phase(
    workplace: Workplace,
    phase: State,
    program: str,
    resume: bool,
    on_event: Callable[[JsonObject], None],
    control: JobControl,
    deadline: float,
) -> tuple[JsonObject, Exit]:
    """Run one phase to its end: its report (as the executable wrote it) and how the child ended.

    Raises JobFailed with the code of what went wrong; LeaseLost and Cancelled come from `control`.
    """
    reports: list[JsonObject] = []
    allowed = _Allowance(workplace.manifest.run.steps)

    def deliver(line: bytes) -> None:
        event = parse_event(line)
        if event is None or (event["event"] != "done" and len(line) > _EVENT_BYTES):
            return
        allowed.take()
        if event["event"] == "done" and isinstance(event.get("report"), dict):
            reports.append(event.pop("report"))  # it goes with the result, and may be large
        on_event({**event, "phase": phase.value})

    confinement = confinement_of(workplace, max(1.0, deadline - time.monotonic()))
    command = workplace.command(phase, program, resume)
    with Child(command, workplace.folder, workplace.folder / "out", confinement) as child:
        ended = child.watch(deliver, control.check, deadline)
    _judge(ended, program, workplace.manifest.limits.wall_seconds, confinement.memory_bytes)
    if not reports:
        raise JobFailed(FailureCode.CRASHED, f"model {program} ended without a report")
    return reports[-1], ended


def parse_event(line: bytes) -> JsonObject | None:
    """One line of the executable as an event; None for anything else that it prints. NaN and infinity become null."""
    try:
        value = json.loads(line, parse_constant=lambda name: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and isinstance(value.get("event"), str) else None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


class _Allowance:
    """How many lines a phase may print: a program gone wild must not fill the disk."""

    def __init__(self, steps: int) -> None:
        self._left = 4 * steps + 1000

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise JobFailed(FailureCode.CRASHED, "the model printed far more lines than it has steps")


def _judge(ended: Exit, program: str, wall_seconds: int, memory_bytes: int) -> None:
    """Raise JobFailed unless the child ended well."""
    if ended.killed_for == "timeout" or ended.returncode == -signal.SIGXCPU:
        raise JobFailed(FailureCode.TIMEOUT, f"model {program} was stopped: the job may take {wall_seconds} s in all")
    if ended.killed_for == "memory":
        raise JobFailed(
            FailureCode.OUT_OF_MEMORY,
            f"model {program} was stopped: it took more than its {memory_bytes / MIB:.1f} MiB of memory",
        )
    if ended.returncode == 0:
        return
    said = f": {ended.error_text}" if ended.error_text else ""
    if ended.returncode in _EXIT_MEANING:
        code, meaning = _EXIT_MEANING[ended.returncode]
        raise JobFailed(code, f"model {program} {meaning}{said}")
    if ended.returncode == -signal.SIGKILL:
        raise JobFailed(FailureCode.OUT_OF_MEMORY, f"model {program} was killed by the system, probably for its memory")
    if ended.returncode == -signal.SIGILL:
        raise JobFailed(
            FailureCode.CRASHED,
            f"model {program} used an instruction that this processor lacks; build for this device's own target{said}",
        )
    how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"exit code {ended.returncode}"
    raise JobFailed(FailureCode.CRASHED, f"model {program} crashed with {how}{said}")
