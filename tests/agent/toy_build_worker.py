"""A build worker for a real service: every build is of a model that trains, which a test has compiled.

`toy_build_worker FOLDER describe`, or `toy_build_worker FOLDER build WORK`; FOLDER has the toy in an artifact's layout.
"""

import json
import sys
from pathlib import Path

from tests.server.artifacts import TARGETS, artifact_files, leave_artifact


def build(toy: Path, folder: Path) -> None:
    """Serve one build."""
    parameters = (toy / "params.safetensors").read_bytes()
    files = artifact_files("toy", (toy / "bin/model").read_bytes(), parameters)
    manifest = json.loads(files["manifest.json"]) | {"inputs": json.loads((toy / "inputs.json").read_text())}
    files["manifest.json"] = json.dumps(manifest).encode()
    files["consts.safetensors"] = (toy / "consts.safetensors").read_bytes()
    leave_artifact(folder, files)


def main() -> None:
    """See the module."""
    if sys.argv[2] == "describe":
        print(json.dumps({"event": "compiler", "version": "toy", "targets": TARGETS}), flush=True)
    elif sys.argv[2] == "build":
        build(Path(sys.argv[1]), Path(sys.argv[3]))


if __name__ == "__main__":
    main()
