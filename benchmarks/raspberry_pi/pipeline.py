"""Cycles of basic blocks by LLVM's models of two processors (llvm-mca).

A block is taken for a loop that runs on and on, every load a hit in the first-level cache, every branch foreseen. So
figures are bounds from below for anything but hot loops over data in that cache."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.raspberry_pi.machine_code import assembly
from benchmarks.raspberry_pi.tools import tool

ITERATIONS = 100
_SUMMARY = ("-json", "-instruction-info=false", "-resource-pressure=false")
"""Views of each instruction are most of the output, and of the time."""


@dataclass(frozen=True)
class Processor:
    """A core.

    model      what llvm-mca calls it
    decode     instructions decoded each cycle, which not every model knows
    products   fused multiply-adds of four f32 each cycle, by the vendor's optimization guide
    gigahertz  of the board"""

    title: str
    target: str
    model: str
    decode: int
    products: int
    gigahertz: float

    @property
    def flops(self) -> int:
        """FLOP a cycle at most."""
        return 8 * self.products


PROCESSORS = (
    Processor("Cortex-A72", "raspberry-pi-4", "cortex-a72", 3, 1, 1.8),
    # LLVM has no model of its own for Cortex-A76; Neoverse N1 is the same core made for servers.
    Processor("Cortex-A76", "raspberry-pi-5", "neoverse-n1", 4, 2, 2.4),
)

Key = TypeVar("Key")


def cycles(blocks: Mapping[Key, Sequence[str]], processor: Processor) -> dict[Key, float]:
    """Cycles of one execution of each block. Raises MissingTool."""
    texts = {key: assembly(block) for key, block in blocks.items()}
    regions = [
        f"# LLVM-MCA-BEGIN {index}\n{text}\n# LLVM-MCA-END\n" for index, text in enumerate(texts.values()) if text
    ]
    with tempfile.TemporaryDirectory(prefix="pock-mca-") as folder:
        source = Path(folder) / "blocks.s"
        source.write_text("".join(regions))
        machine = ["-mtriple=aarch64", f"-mcpu={processor.model}", f"-iterations={ITERATIONS}"]
        command = [tool("llvm-mca"), *machine, *_SUMMARY, str(source)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    modelled = parse_cycles(done.stdout)
    return {
        key: max(modelled.get(str(index), 0.0), len(block) / processor.decode)
        for index, (key, block) in enumerate(blocks.items())
    }


def parse_cycles(text: str) -> dict[str, float]:
    """Cycles an iteration of each region by name, from llvm-mca's JSON."""
    regions = json.loads(text)["CodeRegions"]
    return {
        region["Name"]: region["SummaryView"]["TotalCycles"] / region["SummaryView"]["Iterations"] for region in regions
    }
