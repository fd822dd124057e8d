"""What `python -m client.generate` writes is in the checkout as it would be written now."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_nothing_is_stale() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "client.generate", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
