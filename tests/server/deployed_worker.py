"""The worker command of the whole deployment: makes the artifacts that the other tests have."""

import json
import sys
import zipfile
from pathlib import Path

from tests.server.artifacts import SUMMARY, TARGETS, artifact_files


def main() -> None:
    """`describe`, or `build FOLDER`."""
    if sys.argv[1] == "describe":
        print(json.dumps({"event": "compiler", "version": "1", "targets": TARGETS}))
        return
    folder = Path(sys.argv[2])
    name = json.loads((folder / "task.json").read_text())["name"]
    with zipfile.ZipFile(folder / "out" / "artifact.pock", "w") as archive:
        for member, data in artifact_files(name).items():
            archive.writestr(member, data)
    print(json.dumps({"event": "artifact", "summary": SUMMARY}))


if __name__ == "__main__":
    main()
