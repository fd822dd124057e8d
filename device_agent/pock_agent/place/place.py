"""What a place to run jobs has to offer. The rest of the agent asks nobody else about the machine that works.

Whatever cannot reach its machine now raises `Away`, but for what says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from pock_agent.confinement.child import Confinement, Exit
from pock_agent.device.health import HealthSource
from pock_agent.device.power import PowerSource
from pock_agent.device.target import Emulation
from pock_agent.values import JsonObject


class Running(Protocol):
    """A program that was started. It is dead when the `with` block ends, whatever happened."""

    def __enter__(self) -> Running: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def watch(self, on_line: Callable[[bytes], None], check: Callable[[], None], deadline: float) -> Exit:
        """Deliver its lines until it ends. `deadline` is on the monotonic clock.

        `check` is asked several times a second; what it and `on_line` raise ends the block, and with it the program.
        """

    def interrupt(self) -> None:
        """Ask it to end by itself (SIGTERM); `watch` goes on until it has."""


class Room(Protocol):
    """A job's folder as the machine has it that runs the job. Its paths are those of the folder that it was made of."""

    @property
    def emulation(self) -> Emulation:
        """How the job's executable runs there."""

    def bring(self, without: Collection[str] = ()) -> None:
        """Have the folder there, verified, but for the paths `without`; have here what an earlier program left in
        `out/`."""

    def start(self, command: Sequence[str], limits: Confinement) -> Running:
        """Start a program in the folder, confined as far as that machine can."""

    def collect(self) -> None:
        """Have what the program left in `out/` in the agent's own folder."""

    def remove(self) -> None:
        """Leave nothing of the job there, and nothing running; harmless twice. The agent's own folder stays."""


class Place(Protocol):
    """A machine that runs jobs."""

    name: str
    """What sentences call it."""
    may_leave: bool
    """Whether it can become unreachable while a job is in hand."""

    def away(self) -> str | None:
        """Why it cannot be reached now, in a sentence; None where it can. Never raises."""

    def clear(self, keep: Path) -> None:
        """Remove what earlier jobs of this agent left there, but for the room of the job folder `keep`."""

    def detect_target(self, url: str) -> str | None:
        """The compiler's name for it, or None when nothing tells it. `url` is the service's."""

    def facts(self, target: str, state: Path) -> JsonObject:
        """Hardware, system and agent, as plain JSON, bytes throughout. `state` is the agent's state directory."""

    def health(self) -> HealthSource:
        """A new reader of its sensors, whose counters begin now. Readings are None while it cannot be reached."""

    def power(self) -> PowerSource | None:
        """The best source of its electric power that answers; None where it has none."""

    def charging(self) -> bool | None:
        """Whether it is plugged in; None where it cannot tell, here and below."""

    def temperature(self) -> float | None:
        """Of its hottest part, in degrees Celsius."""

    def metered(self) -> bool | None:
        """Whether the network that its jobs come over costs by the byte."""

    def available_memory(self) -> int:
        """Bytes that a new program can take there; all there are, where the system does not say."""

    def cpus(self) -> int:
        """Processors that a program can use."""

    def room(self, folder: Path, executable: str, file_bytes: int) -> Room:
        """Where the job runs that is laid out in `folder`, and may write files of `file_bytes`. JobFailed where
        `executable` cannot be run there."""
