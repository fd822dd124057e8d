"""What the compiler knows of a device's GPU: the table `[gpu]` of a target's file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from pockengine.errors import TargetError, nearest

GENERATIONS = (
    "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_101", "sm_103", "sm_120", "sm_121",
)  # fmt: skip
"""Those of NVIDIA's that there are, and kernels are written for (NVRTC 12.9, "Supported compile options")."""

_SHARED_KB = {
    **dict.fromkeys(("80", "87"), 163),
    **dict.fromkeys(("86", "89", "120", "121"), 99),
    **dict.fromkeys(("90", "100", "101", "103"), 227),
}
_USUAL_SHARED_KB = 48


@dataclass(frozen=True)
class Gpu:
    """A GPU, as its maker describes it.

    arch                what kernels are compiled for: `sm_87`, or a name where the device compiles them itself
    multiprocessors     parts that run blocks of threads, each on its own
    clock_mhz           of these, at most
    f32_per_cycle       operations of one multiprocessor in a cycle; a multiplication with an addition is two
    bf16_per_cycle      the same of its matrix units, which add up in f32; without them as `f32_per_cycle`
    memory_mb_per_s     10^6 bytes that its memory gives in a second
    link_mb_per_s       10^6 bytes that come from its host's memory in a second, where that is another
    image_reads         whether it reads images quicker than buffers: then their reads have a cache of their own"""

    arch: str
    multiprocessors: int
    clock_mhz: int
    f32_per_cycle: int
    bf16_per_cycle: int
    memory_mb_per_s: int
    link_mb_per_s: int = 12_000
    image_reads: bool = False

    @property
    def bytes_per_cycle(self) -> float:
        """What its memory gives in a cycle."""
        return self.memory_mb_per_s / self.clock_mhz

    @property
    def link_bytes_per_cycle(self) -> float:
        """What the link to its host gives in a cycle."""
        return self.link_mb_per_s / self.clock_mhz

    @property
    def flops_per_cycle(self) -> float:
        """What all multiprocessors compute in a cycle, in f32."""
        return float(self.multiprocessors * self.f32_per_cycle)

    def matrix_flops_per_cycle(self, compute: str) -> float:
        """What all its matrix units compute in a cycle: half of it in tf32, whose numbers are twice as long, and twice
        in e4m3."""
        return self.multiprocessors * self.bf16_per_cycle * {"tf32": 0.5, "e4m3": 2.0}.get(compute, 1.0)

    @property
    def has_matrix_units(self) -> bool:
        """Whether it multiplies matrices of bf16, f16 and tf32: GPUs of NVIDIA's from compute capability 8.0 on."""
        return self.arch.startswith("sm_")

    @property
    def compiles_itself(self) -> bool:
        """Whether its driver compiles kernels, from OpenCL C: then they use no matrix units, and widen 16-bit floats to
        multiply them."""
        return bool(self.arch) and not self.arch.startswith("sm_")

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats beside f32 in which it multiplies, with sums in f32."""
        return ("bf16", "f16", "tf32") if self.has_matrix_units else ("f16",)

    @property
    def has_fp8_units(self) -> bool:
        """Whether they multiply 8-bit floats, too: from compute capability 8.9 on."""
        found = re.fullmatch(r"sm_(\d+)a?", self.arch)
        return found is not None and int(found[1]) >= 89

    @property
    def has_warpgroup_units(self) -> bool:
        """Whether its matrix units read both operands from shared memory by themselves: Hopper's."""
        return self.arch == "sm_90a"

    @property
    def copies_apart(self) -> bool:
        """Whether a block's shared memory is filled in the background: GPUs of NVIDIA's from the same on."""
        return self.arch.startswith("sm_")

    @property
    def block_shared_bytes(self) -> int:
        """Shared memory that a block can ask for (CUDA C++ programming guide 12.9, "Technical specifications")."""
        found = re.fullmatch(r"sm_(\d+)a?", self.arch)
        return _SHARED_KB.get(found[1] if found else "", _USUAL_SHARED_KB) << 10

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


_WANTED: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "str": ("text", lambda value: isinstance(value, str) and value != ""),
    "int": ("a positive whole number", lambda value: type(value) is int and value > 0),
    "bool": ("true or false", lambda value: type(value) is bool),
}


def gpu_of(table: object, origin: str) -> Gpu | None:
    """The table of a file called `origin`; None where there is none. TargetError for unknown, missing or mistyped
    keys."""
    if table is None:
        return None
    kinds = {field.name: str(field.type) for field in fields(Gpu)}
    if not isinstance(table, dict):
        raise TargetError(f"{origin}: gpu must be a table")
    for key, value in table.items():
        if key not in kinds:
            raise TargetError(f"{origin}: gpu has an unknown key '{key}'{nearest(key, kinds)}")
        wanted, right = _WANTED[kinds[key]]
        if not right(value):
            raise TargetError(f"{origin}: gpu.{key} must be {wanted}, not {value!r}")
    needed = [field.name for field in fields(Gpu) if field.default is MISSING]
    if missing := sorted(set(needed) - table.keys()):
        raise TargetError(f"{origin}: gpu lacks {', '.join(missing)}")
    return Gpu(**table)
