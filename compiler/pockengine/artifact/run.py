"""Runs an artifact's executable: what `pock run` does."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pockengine.artifact.artifact import Artifact
from pockengine.artifact.errors import WrongMachineError
from pockengine.artifact.manifest import Manifest
from pockengine.targets import get as get_target


def run_artifact(path: str | os.PathLike[str], entry: str, arguments: Sequence[str]) -> int:
    """Runs `model ENTRY ARGUMENTS…` with this process's standard streams and returns its exit code."""
    return subprocess.call(model_command(path, entry, arguments))


def model_command(path: str | os.PathLike[str], entry: str, arguments: Sequence[str]) -> list[str]:
    """Verifies and unpacks the artifact; the command line of `model ENTRY ARGUMENTS…`. A Linux program for another
    architecture runs under qemu-user where that is installed; otherwise raises WrongMachineError."""
    artifact = Artifact.open(path)
    prefix = _emulator(artifact.manifest)
    executable = artifact.unpack() / artifact.manifest.entry_points.executable
    return [*prefix, str(executable), entry, *arguments]


def _emulator(manifest: Manifest) -> list[str]:
    """What to put before the executable: nothing on its own kind of machine."""
    host, built = get_target("host"), manifest.target
    arch = str(built["triple"]).partition("-")[0]
    if built["os"] != host.os:
        raise WrongMachineError(f"the artifact is for {built['name']} ({built['os']}), this machine runs {host.os}")
    if arch == host.arch:
        return []
    for name in (f"qemu-{arch}-static", f"qemu-{arch}"):
        if found := shutil.which(name):
            return [str(Path(found))]
    raise WrongMachineError(
        f"the artifact is for {built['name']} ({arch}), this machine is {host.arch}; "
        "install qemu-user-static to run it here"
    )
