"""A build worker for a real service: it leaves the fake model as the artifact of whatever build it is asked for."""

import json
import sys
from pathlib import Path

from tests.agent import fake_model
from tests.server.artifacts import TARGETS, artifact_files, leave_artifact


def build(folder: Path, parameters: bytes = b"parameters" * 100) -> None:
    """Serve one build."""
    leave_artifact(folder, artifact_files("fake", fake_model.SOURCE, parameters))


def main() -> None:
    """`describe`, or `build FOLDER`."""
    if sys.argv[1] == "describe":
        print(json.dumps({"event": "compiler", "version": "fake", "targets": TARGETS}), flush=True)
    elif sys.argv[1] == "build":
        build(Path(sys.argv[2]))


if __name__ == "__main__":
    main()
