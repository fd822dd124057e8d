"""How much a confined process and all it starts may take."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

from pock_server.settings import Settings

_SHARE = 0.6
_LEAST = 512 << 20
_BOUNDS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class Limits:
    """memory and disk, in bytes, are of all processes together; the others of each."""

    memory: int
    disk: int
    seconds: int
    processes: int
    files: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def make_limits(settings: Settings) -> Limits:
    """What the settings say; of memory, unless they do, each of the parallel builds gets its part of 60 %."""
    memory = settings.build_memory_bytes
    if memory == 0:
        memory = max(_LEAST, int(machine_memory() * _SHARE / settings.parallel_builds))
    longest = max(settings.build_timeout_seconds, settings.search_timeout_seconds)
    seconds = int(longest * max(1, os.cpu_count() or 1)) + 1
    return Limits(memory, settings.build_disk_bytes, seconds, settings.build_processes, settings.build_open_files)


def machine_memory() -> int:
    """Bytes of memory that this service can have."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _BOUNDS:
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return min(found)
