"""Counts the instructions of programs for AArch64: qemu's user-mode emulator with our plugin (count.c)."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from benchmarks.raspberry_pi.tools import CACHE, tool
from benchmarks.zig import zig

Block = tuple[int, int]
"""Address and number of instructions."""


def executions(
    command: Sequence[str], environment: Mapping[str, str] | None = None, standard_input: str = ""
) -> Counter[Block]:
    """How often each block of a program runs. Raises MissingTool; RuntimeError when the program fails."""
    with tempfile.TemporaryDirectory(prefix="pock-count-") as folder:
        counts = Path(folder) / "counts"
        emulated = [tool("qemu-aarch64"), "-plugin", f"{_plugin()},out={counts}", *command]
        done = subprocess.run(
            emulated, input=standard_input, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} ends with status {done.returncode} under qemu: {done.stderr[-500:]}")
        return parse_counts(counts.read_text())


def parse_counts(text: str) -> Counter[Block]:
    """What the plugin wrote; a block that was translated twice is one."""
    counts: Counter[Block] = Counter()
    for line in text.splitlines():
        address, instructions, executed = line.split()
        counts[int(address, 16), int(instructions)] += int(executed)
    return counts


def instructions(counts: Mapping[Block, int]) -> int:
    """Instructions executed in all."""
    return sum(length * executed for (_, length), executed in counts.items())


@cache
def _plugin() -> Path:
    """The plugin, compiled for the emulator that is installed."""
    said = subprocess.run([tool("qemu-aarch64"), "--version"], check=True, capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)\.", said)
    version = 1 if found and int(found[1]) < 9 else 2
    library = CACHE / f"libcount-{version}.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    flags = ["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", f"-DINTERFACE_VERSION={version}"]
    source = Path(__file__).with_name("count.c")
    zig("cc", [*flags, str(source), "-o", str(library)])
    return library
