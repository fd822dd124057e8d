"""The examples run as they stand, and what they claim at their end holds: each asserts it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweeps import some

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("[!_]*.py"))


@pytest.mark.parametrize("name", some(EXAMPLES, 2))
def test_it_runs(name: str) -> None:
    if name == "vision_on_a_pi" and shutil.which("qemu-aarch64-static") is None:
        pytest.skip("qemu-aarch64-static is not installed (Debian: apt-get install qemu-user-static)")
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}"], cwd=ROOT, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") >= 2, "it says what happened"


def test_each_is_named_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert all(f"examples/{name}.py" in readme for name in EXAMPLES)
