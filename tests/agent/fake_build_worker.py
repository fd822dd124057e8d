"""A build worker for a real service: it leaves the fake model as the artifact of whatever build it is asked for."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from tests.agent import fake_model

PORTS = [
    {"name": "input", "dtype": "f32", "shape": [2, 4], "target": False, "optional": False},
    {"name": "labels", "dtype": "i64", "shape": [2], "target": True, "optional": False},
]


def say(**message: Any) -> None:
    """One line to the runner."""
    print(json.dumps(message), flush=True)


def build(folder: Path, parameters: bytes = b"parameters" * 100) -> None:
    """Serve one build."""
    summary = {"arena_bytes": 1000, "predicted_peak_bytes": 5000, "kernels": 3}
    manifest = {
        "format": 3,
        "name": "fake",
        "created_by": {"pockengine": "0"},
        "target": {"name": "host"},
        "recipe": {"batch": 2},
        "threads": 1,
        "summary": summary,
        "members": {},
        "programs": {},
        "tensors": [],
        "inputs": PORTS,
        "outputs": [],
        "entry_points": {"executable": "bin/model"},
    }
    with zipfile.ZipFile(folder / "out" / "artifact.pock", "w") as archive:
        archive.writestr("bin/model", fake_model.SOURCE)
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("params.safetensors", parameters)
    say(event="artifact", summary=summary)


def main() -> None:
    if sys.argv[1] == "describe":
        targets = [{"name": "host", "description": "this machine", "triple": "x86_64-linux-musl", "cores": 2}]
        say(event="compiler", version="fake", targets=targets)
    elif sys.argv[1] == "build":
        build(Path(sys.argv[2]))


if __name__ == "__main__":
    main()
