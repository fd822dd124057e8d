"""NVIDIA's GPU of a machine, as its driver's own program tells it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

_ASKED = ("--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
_TARGETS = (("H100", "h100"), ("H200", "h200"), ("RTX 4090", "rtx-4090"), ("RTX 5090", "rtx-5090"))
_LEAST_DRIVER = 525
"""The first with CUDA 12.0 (CUDA Toolkit release notes, "CUDA Driver"), which compiled kernels need."""


@dataclass(frozen=True)
class Gpu:
    """The first GPU that the driver lists.

    name        as NVIDIA calls it: `NVIDIA H100 80GB HBM3`
    capability  its compute capability: `9.0`
    driver      the driver's version: `580.65.06`"""

    name: str
    capability: str
    driver: str

    @property
    def target(self) -> str | None:
        """The compiler's name for a machine with this GPU; None where there is none, or the driver is too old."""
        if int(self.driver.partition(".")[0]) < _LEAST_DRIVER:
            return None
        return next((target for words, target in _TARGETS if words in self.name and "Laptop" not in self.name), None)


def find_gpu() -> Gpu | None:
    """None where there is no driver, or it lists no GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        told = subprocess.run(
            [program, *_ASKED], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=10
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(r"([^,\n]{1,100}), (\d{1,2}\.\d), (\d{1,6}(?:\.\d{1,6}){1,3})\s*(?:\n|$)", told)
    return Gpu(*found.groups()) if found else None
