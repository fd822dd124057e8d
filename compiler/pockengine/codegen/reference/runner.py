"""Runs what the reference backend built: in this process, or as a Python process of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .machine import Machine
from .reading import parse


class ReferenceRunner:
    """Artifacts of numpy functions, which any machine runs: see `codegen.runner.Runner`."""

    def check(self, target: Mapping[str, Any]) -> None:
        """Whatever they were planned for, they run here."""

    def open(self, folder: Path, library: str, threads: int) -> Machine:
        """See Runner."""
        consts = folder / "consts.safetensors"
        program = parse((folder / library).read_bytes())
        return Machine(program, folder / "params.safetensors", consts if consts.exists() else None)

    def launcher(self, target: Mapping[str, Any]) -> list[str]:
        """This interpreter."""
        return [sys.executable, "-m", "pockengine.codegen.reference"]
