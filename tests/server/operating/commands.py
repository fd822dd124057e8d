"""Commands of the service in processes of their own, whose modules are imported once: else that is most of it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_SECONDS = 60
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["pock_server.app", "pock_server.cli.serving", "pock_server.cli.worker"])


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """What `pock-server` says with these arguments, in this environment alone. It has to end by itself."""
    said, complained = folder / "stdout", folder / "stderr"
    process = _processes.Process(target=_run, args=(tuple(arguments), dict(environment), said, complained))
    process.start()
    process.join(_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
    return subprocess.CompletedProcess(
        ("pock-server", *arguments), process.exitcode or 0, said.read_text(), complained.read_text()
    )


def _run(arguments: tuple[str, ...], environment: dict[str, str], said: Path, complained: Path) -> None:
    os.environ.clear()
    os.environ.update(environment)
    for path, number in ((said, 1), (complained, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["pock-server", *arguments]
    from pock_server.cli import main

    main()
