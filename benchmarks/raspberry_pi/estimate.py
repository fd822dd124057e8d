"""From executed blocks to estimates: cycles of a step, and how near its inner loops come to the processor's peak."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.raspberry_pi.emulator import Block, instructions
from benchmarks.raspberry_pi.machine_code import Disassembly, disassemble, vector_arithmetic, vector_products
from benchmarks.raspberry_pi.pipeline import Processor, cycles
from benchmarks.raspberry_pi.steps import Step

COVERED = 0.99
"""Of all instructions, those in the blocks that are modelled; the rest is taken to be as fast."""
_BRANCH = re.compile(r"(?:b\.\w+|cbn?z \w+,|tbn?z .*,) 0x([0-9a-f]+) ")


@dataclass(frozen=True)
class Loop:
    """An inner loop: what it is part of, instructions that do the work it is for, cycles, and how often it ran."""

    name: str
    work: int
    cycles: float
    executed: int


@dataclass(frozen=True)
class Estimate:
    """One step on one processor. `kind_instructions` and `kind_cycles` are by the kind of kernel."""

    processor: Processor
    flops: int
    instructions: int
    cycles: float
    kind_instructions: Mapping[str, int]
    kind_cycles: Mapping[str, float]
    loops: tuple[Loop, ...]

    @property
    def share_of_peak(self) -> float:
        return self.flops / (self.cycles * self.processor.flops)

    @property
    def milliseconds(self) -> float:
        return self.cycles / self.processor.gigahertz / 1e6


def estimate(step: Step, processor: Processor) -> Estimate:
    """Raises MissingTool."""
    with tempfile.TemporaryDirectory(prefix="pock-code-") as folder:
        program = Path(folder) / "model"
        program.write_bytes(step.program)
        code = disassemble(program)
    executed = _hottest(step.executed)
    blocks = {block: code.block(*block) for block in executed}
    modelled = cycles(blocks, processor)
    owners = _owners(code, step.kinds)
    kind_instructions: Counter[str] = Counter()
    kind_cycles: dict[str, float] = {}
    loops = []
    for block, times in executed.items():
        index = code.function_index(block[0])
        kind = step.kinds.get(owners[index], "runtime")
        kind_instructions[kind] += block[1] * times
        kind_cycles[kind] = kind_cycles.get(kind, 0.0) + modelled[block] * times
        loop = _loop(kind, code.functions[index][1], block[0], blocks[block], modelled[block], times)
        if loop is not None:
            loops.append(loop)
    every = instructions(step.executed)
    total = sum(kind_cycles.values()) * every / kind_instructions.total()
    return Estimate(processor, step.flops, every, total, kind_instructions, kind_cycles, tuple(loops))


def _hottest(executed: Mapping[Block, int]) -> dict[Block, int]:
    """The blocks with the most instructions executed, COVERED of all."""
    wanted, found = COVERED * instructions(executed), {}
    for block, times in sorted(executed.items(), key=lambda one: (-one[0][1] * one[1], one[0])):
        if wanted <= 0:
            break
        found[block] = times
        wanted -= block[1] * times
    return found


def _owners(code: Disassembly, kernels: Iterable[str]) -> list[str]:
    """The kernel that each function belongs to: its static functions follow it; "" for the runtime's."""
    known, owner, owners = set(kernels), "", []
    for _, name in code.functions:
        owner = name if name in known else "" if name.startswith("pock_") else owner
        owners.append(owner)
    return owners


def _loop(kind: str, function: str, start: int, block: tuple[str, ...], cost: float, executed: int) -> Loop | None:
    """The block as an inner loop of those whose share of peak is told; None for other blocks."""
    back = _BRANCH.match(block[-1])
    if back is None or int(back[1], 16) != start:
        return None
    if kind == "product" and function.startswith("tile_"):
        return Loop(f"matrix product, {function.removeprefix('tile_')}", vector_products(block), cost, executed)
    if kind == "depthwise" and vector_products(block):
        return Loop("depthwise convolution", vector_products(block), cost, executed)
    if kind in ("row", "elementwise") and any(line.startswith("frint") or "scvtf" in line for line in block):
        return Loop("exponential", vector_arithmetic(block), cost, executed)
    return None
