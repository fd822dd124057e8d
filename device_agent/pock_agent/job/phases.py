"""The phases of a job: what each one may use, what it reports, and what its exit means. `workplace` has its command."""

from __future__ import annotations

import json
import math
import signal
import time
from collections.abc import Callable

from pock_agent.confinement.child import Confinement, Exit, Overstep
from pock_agent.errors import FailureCode, JobFailed
from pock_agent.job.control import JobControl, Paused
from pock_agent.job.states import State
from pock_agent.job.workplace import GIVEN, Workplace, file_bytes
from pock_agent.place.place import Place, Running
from pock_agent.settings import MIB
from pock_agent.trust.manifest import Entry, Manifest
from pock_agent.values import JsonObject

PHASES = (State.EVAL_BEFORE, State.TRAIN, State.EVAL_AFTER)
_EVENT_BYTES = 64 * 1024  # an event is a few numbers; only the last one carries the report
_EMULATOR_BYTES = 512 * MIB  # the emulator's translated code comes on top of what the program itself uses
_PAUSED_EXIT = 7
_EXIT_MEANING = {
    2: (FailureCode.BAD_ARGUMENT, "did not accept its command line"),
    3: (FailureCode.BAD_DATA, "did not accept its data or weights"),
    4: (FailureCode.DISK_FULL, "could not read or write a file"),
    5: (FailureCode.OUT_OF_MEMORY, "had too little memory"),
    6: (FailureCode.BAD_RECIPE, "diverged: the loss is not finite; use a smaller learning rate"),
}


def check_memory(manifest: Manifest, place: Place) -> None:
    """Refuse a plan that needs more memory than is free now, instead of letting the device swap or kill."""
    available = place.available_memory()
    if manifest.limits.required_bytes > available:
        raise JobFailed(
            FailureCode.DEVICE_MEMORY,
            f"the plan needs {manifest.limits.required_bytes / MIB:.1f} MiB and {available / MIB:.1f} MiB are free "
            "here; build with a smaller batch or train fewer layers, or close other programs on the device",
        )


def confinement_of(workplace: Workplace, wall_seconds: float) -> Confinement:
    """The limits of a phase."""
    limits, run = workplace.manifest.limits, workplace.manifest.run
    memory = limits.memory_bytes or workplace.place.available_memory()
    return Confinement(
        memory_bytes=memory + (_EMULATOR_BYTES if workplace.room.emulation.emulated else 0),
        cpu_seconds=math.ceil(wall_seconds * (run.threads or workplace.place.cpus())) + 10,
        file_bytes=file_bytes(workplace.manifest),
    )


def run_phase(
    workplace: Workplace,
    phase: State,
    entry: Entry,
    resume: bool,
    on_event: Callable[[JsonObject], None],
    control: JobControl,
    deadline: float,
) -> tuple[JsonObject, Exit]:
    """Run one phase to its end: its report (as the executable wrote it) and how the child ended.

    Raises JobFailed with the code of what went wrong, Paused where policies forbid work; LeaseLost and Cancelled come
    from `control`.
    """
    reports: list[JsonObject] = []
    allowed = _Allowance(workplace.manifest.steps_of_process)

    def deliver(line: bytes) -> None:
        event = parse_event(line)
        if event is None or (event["event"] != "done" and len(line) > _EVENT_BYTES):
            return
        allowed.take()
        if event["event"] == "done" and isinstance(event.get("report"), dict):
            reports.append(event.pop("report"))  # it goes with the result, and may be large
        on_event({**event, "phase": phase.value})

    room = workplace.room
    room.bring(without=(GIVEN,))
    confinement = confinement_of(workplace, max(1.0, deadline - time.monotonic()))
    command = workplace.command(phase, entry, resume)
    with room.start(command, confinement) as child:
        pausing = _Pausing(child, control)
        ended = child.watch(deliver, pausing.check, deadline)
    room.collect()
    if pausing.ended_for_it(ended):
        raise Paused(control.verdict().reason)
    _judge(ended, entry, workplace.manifest.limits.wall_seconds, confinement.memory_bytes)
    if not reports:
        raise JobFailed(FailureCode.CRASHED, f"model {entry.value} ended without a report")
    return reports[-1], ended


class _Pausing:
    """Has a program end by itself once policies forbid work, or be killed if it does not."""

    def __init__(self, child: Running, control: JobControl) -> None:
        self._child, self._control = child, control
        self._asked_at: float | None = None

    def check(self) -> None:
        """Raise the reason to stop, if there is one; Paused if the program was asked to end and does not."""
        self._control.check()
        if self._asked_at is None:
            if not self._control.verdict().allowed:
                self._asked_at = time.monotonic()
                self._child.interrupt()
        elif time.monotonic() >= self._asked_at + self._control.patience:
            raise Paused(self._control.verdict().reason)

    def ended_for_it(self, ended: Exit) -> bool:
        """Whether that is why it ended: with a checkpoint, or, where it knows no pause, by the signal."""
        if ended.killed_for is not None:
            return False
        return ended.returncode == _PAUSED_EXIT or (self._asked_at is not None and ended.returncode == -signal.SIGTERM)


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


def _judge(ended: Exit, entry: Entry, wall_seconds: int, memory_bytes: int) -> None:
    """Raise JobFailed unless the child ended well."""
    model = f"model {entry.value}"
    if ended.killed_for is Overstep.TIME or ended.returncode == -signal.SIGXCPU:
        raise JobFailed(FailureCode.TIMEOUT, f"{model} was stopped: the job may take {wall_seconds} s in all")
    if ended.killed_for is Overstep.MEMORY:
        raise JobFailed(
            FailureCode.OUT_OF_MEMORY,
            f"{model} was stopped: it took more than its {memory_bytes / MIB:.1f} MiB of memory",
        )
    if ended.returncode == 0:
        return
    said = f": {ended.error_text}" if ended.error_text else ""
    if ended.returncode in _EXIT_MEANING:
        code, meaning = _EXIT_MEANING[ended.returncode]
        raise JobFailed(code, f"{model} {meaning}{said}")
    if ended.returncode == -signal.SIGKILL:
        raise JobFailed(FailureCode.OUT_OF_MEMORY, f"{model} was killed by the system, probably for its memory")
    if ended.returncode == -signal.SIGILL:
        raise JobFailed(
            FailureCode.CRASHED,
            f"{model} used an instruction that this processor lacks; build for this device's own target{said}",
        )
    how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"exit code {ended.returncode}"
    raise JobFailed(FailureCode.CRASHED, f"{model} crashed with {how}{said}")
