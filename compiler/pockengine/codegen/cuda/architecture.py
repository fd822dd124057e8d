"""The generations of NVIDIA's GPUs: `sm_87` is compute capability 8.7."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...errors import TargetError
from ...targets import Target

LEAST = 80
"""Ampere: the first with asynchronous copies and bfloat16."""


BOARDS = {(8, 7), (10, 1), (11, 0)}
"""Capabilities of boards' GPUs: Orin and Thor."""


@dataclass(frozen=True)
class Architecture:
    """What kernels are compiled for. Machine code runs on GPUs of the same `major` and no smaller `minor`. What
    has instructions of its `own` (the letter of `sm_90a`), and what is for a board, runs on that one alone."""

    major: int
    minor: int
    own: bool

    @property
    def name(self) -> str:
        """As compilers write it: `sm_87`."""
        return f"sm_{self.major}{self.minor}{'a' if self.own else ''}"

    @property
    def exact(self) -> bool:
        """Whether it runs on no other (CUDA C++ programming guide 12.9, "Binary compatibility")."""
        return self.own or (self.major, self.minor) in BOARDS


def architecture_of(target: Target) -> Architecture:
    """That of a target's GPU. TargetError where it has none, or one that is too old."""
    if target.gpu is None or not target.gpu.arch.startswith("sm_"):
        raise TargetError(
            f"the target '{target.name}' has no GPU of NVIDIA's: choose one that has, or a generation such as 'sm_89'"
        )
    return parsed(target.gpu.arch)


def parsed(text: str) -> Architecture:
    """From `sm_87` or `sm_90a`. TargetError for anything else."""
    found = re.fullmatch(r"sm_(\d{1,2})(\d)(a?)", text)
    if not found or int(found[1] + found[2]) < LEAST:
        raise TargetError(f"'{text}' is no GPU generation that kernels are written for: sm_{LEAST} or newer")
    return Architecture(int(found[1]), int(found[2]), bool(found[3]))
