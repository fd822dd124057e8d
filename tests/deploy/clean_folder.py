"""Commands that know nothing of this checkout: as on a machine that has only what was copied there."""

import os
import subprocess
import sys
from pathlib import Path


def run(folder: Path, *command: str, **variables: str) -> str:
    """The output of a command, run in `folder`, which is its home too."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables = {**known, "PYTHON": sys.executable, "HOME": str(folder), **variables}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout
