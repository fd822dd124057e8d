"""Stands in for the compiler in tests of the command: it does what the build's name begins with."""

import json
import sys
import time
from pathlib import Path

from tests.server.artifacts import TARGETS, artifact_files, leave_artifact, leave_search


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def build(folder: Path) -> None:
    task = json.loads((folder / "task.json").read_text())
    name = task["name"]
    say(event="log", text=f"making {name}\nwith \x1b]0;title\x07[bold]brackets[/bold]")
    say(event="progress", stage="compile", done=1, total=4)
    if name.startswith("fail"):
        say(event="failed", code=3002, detail="Operator \x1b[31mFoo\x1b[0m is not supported.")
    else:
        if name.startswith("slow"):
            time.sleep(600)
        if "search" in task:
            return leave_search(folder)
        leave_artifact(folder, artifact_files(name))


if sys.argv[1] == "describe":
    say(event="compiler", version="fake", targets=TARGETS)
else:
    build(Path(sys.argv[2]))
