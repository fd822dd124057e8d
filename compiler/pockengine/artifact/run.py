"""Runs an artifact's executable: what `pock run` does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from pockengine.artifact.artifact import Artifact
from pockengine.codegen import backends


def run_artifact(path: str | os.PathLike[str], entry: str, arguments: Sequence[str]) -> int:
    """Runs `model ENTRY ARGUMENTS…` with this process's standard streams and returns its exit code."""
    return subprocess.call(model_command(path, entry, arguments))


def model_command(path: str | os.PathLike[str], entry: str, arguments: Sequence[str]) -> list[str]:
    """Verifies and unpacks the artifact; the command line of `model ENTRY ARGUMENTS…`, through whatever its backend
    runs it with on this machine. Raises WrongMachineError where that cannot be."""
    artifact = Artifact.open(path)
    launcher = backends.runner(artifact.manifest.backend).launcher(artifact.manifest.target)
    executable = artifact.unpack() / artifact.manifest.entry_points.executable
    return [*launcher, str(executable), entry, *arguments]
