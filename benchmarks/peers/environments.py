"""Virtual environments of the peers, under .cache/peers, made once from the pinned requirements."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "peers"
_FRAMEWORKS = ("torch==", "transformers==", "tensorflow", "keras==", "jax==", "onnxruntime-training==")


def python_of(environment: str | None) -> Path:
    """The interpreter of an environment, which is installed first where it is missing or out of date."""
    if environment is None:
        return Path(sys.executable)
    requirements = Path(__file__).with_name(f"requirements-{environment}.txt")
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()
    folder = CACHE / "environments" / environment
    python, stamp = folder / "bin" / "python", folder / ".installed"
    if stamp.is_file() and stamp.read_text() == digest:
        return python
    print(f"installing the environment of {environment}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    for step in _steps(requirements):
        subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", *step], check=True)
    stamp.write_text(digest)
    return python


def pinned_versions() -> dict[str, str]:
    """Version of each framework, from the requirements."""
    pins: dict[str, str] = {}
    for requirements in sorted(Path(__file__).parent.glob("requirements-*.txt")):
        lines = (line.partition("==") for line in requirements.read_text().splitlines())
        pins |= {name: version for name, _, version in lines if version and name.startswith(_FRAMEWORKS)}
    return pins


def _steps(requirements: Path) -> list[list[str]]:
    """Arguments of pip, torch first: what comes after must not choose another build of it."""
    torch = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    return [*([torch] if torch else []), ["-r", str(requirements)]]
