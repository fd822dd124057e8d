"""Runs what a backend built for a system: the library in this process, or the executable as a program of its own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import TargetError, WrongMachineError
from ...targets import get as get_target
from ...targets import machine, processor
from .library import NativeModel


class NativeRunner:
    """Machine code of a processor: see `codegen.runner.Runner`."""

    def check(self, target: Mapping[str, Any]) -> None:
        """A library runs only where system and architecture are those it was compiled for, and the processor has all
        that it was compiled for."""
        host = get_target("host")
        arch, cpu = _arch(target), str(target["cpu"]) + "".join(target.get("features", []))
        same_kind = target["os"] == host.os and arch == host.arch
        if not same_kind or (cpu != host.mcpu and not _has_all_of(cpu, host.triple)):
            raise WrongMachineError(
                f"the artifact is for {target['name']} ({arch} {target['os']}, {target['cpu']}), this machine is "
                f"{host.arch} {host.os}, {host.cpu}; compile with target 'host' to load it here"
            )

    def open(self, folder: Path, library: str, threads: int) -> NativeModel:
        """See Runner."""
        consts = folder / "consts.safetensors"
        return NativeModel(
            folder / library, folder / "params.safetensors", consts if consts.exists() else None, threads
        )

    def launcher(self, target: Mapping[str, Any]) -> list[str]:
        """A Linux program for another architecture runs under qemu-user where that is installed."""
        host, arch = get_target("host"), _arch(target)
        if target["os"] != host.os:
            raise WrongMachineError(
                f"the artifact is for {target['name']} ({target['os']}), this machine runs {host.os}"
            )
        if arch == host.arch:
            return []
        for name in (f"qemu-{arch}-static", f"qemu-{arch}"):
            if found := shutil.which(name):
                return [str(Path(found))]
        raise WrongMachineError(
            f"the artifact is for {target['name']} ({arch}), this machine is {host.arch}; "
            "install qemu-user-static to run it here"
        )


def _arch(target: Mapping[str, Any]) -> str:
    return str(target["triple"]).partition("-")[0]


def _has_all_of(cpu: str, triple: str) -> bool:
    """Whether this machine has each instruction set of a CPU."""
    try:
        return not processor.lacking(triple, cpu, machine.actual_cpu(triple))
    except TargetError:  # a newer compiler's CPU
        return False
