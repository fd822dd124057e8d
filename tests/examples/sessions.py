"""Runs the session of a page of the documentation in a shell, as it stands."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from demo.processes import free_port

SECONDS = 400
PAGES = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """The page's blocks of this language."""
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)


def said_by(page: str, folder: Path, *files: str) -> str:
    """What the page's session says on stdout. Its Python programs are run first, and its blocks of YAML and TOML are in
    these files, in the page's order."""
    for program in blocks(page, "python"):
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True, timeout=SECONDS)
    for language in ("yaml", "toml"):
        names = [name for name in files if name.endswith(f".{language}")]
        for name, text in zip(names, blocks(page, language), strict=True):
            (folder / name).write_text(text)
    session = "\n".join(blocks(page, "bash")).replace("port=8080", f"port={free_port()}")
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(folder / "config")}
    environment = {name: value for name, value in os.environ.items() if name not in ("POCK_URL", "POCK_KEY")} | own
    command = ["bash", "-euo", "pipefail", "-c", session]
    out, err = folder / "out", folder / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        shell = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            status = shell.wait(SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert status == 0, err.read_text()
    return out.read_text()
