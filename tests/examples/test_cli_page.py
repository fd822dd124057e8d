"""docs/cli.md: a new user's session runs as it stands, from nothing to a comparison of two devices."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from demo.processes import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SECONDS = 400


def blocks(language: str) -> list[str]:
    """The page's blocks of this language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_session_of_a_new_user(tmp_path: Path) -> None:
    (program,) = blocks("python")
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, timeout=SECONDS)
    (tmp_path / "recipe.yaml").write_text(*blocks("yaml"))
    session = "\n".join(blocks("bash")).replace("port=8080", f"port={free_port()}")
    own = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(tmp_path / "config")}
    environment = {name: value for name, value in os.environ.items() if name not in ("POCK_URL", "POCK_KEY")} | own
    command = ["bash", "-euo", "pipefail", "-c", session]
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        shell = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            status = shell.wait(SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    assert status == 0, err.read_text()
    said = out.read_text()
    assert re.search(r"signed in to http://127.0.0.1:\d+ as me, workspace default", said)
    (table,) = blocks("text")
    columns = table.splitlines()[0].split()
    comparisons = [line for line in said.splitlines() if line.split() == columns]
    assert len(comparisons) == 2, "bench and compare end with the same table"
    *_, left, right, fetched = said.splitlines()
    assert {left.split()[2], right.split()[2]} == {"left", "right"}
    assert re.search(r"ms.*–.*ms.*MB", left) and re.search(r"\(\d+\.\d+×\)", right)
    assert fetched.startswith("digits.pock: ") and (tmp_path / "digits.pock").stat().st_size > 0
    trained = [line for line in said.splitlines() if "train" in line.split() and "succeeded" in line.split()]
    assert len(trained) == 2 and all(float(re.findall(r"(\d+\.\d) %", line)[-1]) > 60 for line in trained)
