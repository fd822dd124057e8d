"""What the system says of this process's memory."""

from __future__ import annotations

from pathlib import Path


def status_bytes(field: str) -> int:
    """A field of /proc/self/status, such as `VmHWM`, the peak of what was resident. `getrusage` says none of one's own:
    its peak begins with that of the process that started this one."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))
