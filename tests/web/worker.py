"""A build worker that speaks the runner's protocol and leaves the handmade artifact, so that the tests set the pace.

Called as the service calls its own worker: with `build FOLDER`, or with `describe`. A recipe with `wait_for` holds the
build at 3 of 10 until that file exists; a recipe whose loss is not `cross_entropy` fails as the compiler would.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.web import handmade

TARGETS = [
    {"name": "host", "description": "this machine", "triple": "x86_64-linux-musl", "cores": 2},
    {"name": "raspberry-pi-4", "description": "Cortex-A72", "triple": "aarch64-linux-musl", "cores": 4},
    {"name": "raspberry-pi-5", "description": "Cortex-A76", "triple": "aarch64-linux-musl", "cores": 4},
]


def say(**event: Any) -> None:
    """One line to the runner."""
    print(json.dumps(event), flush=True)


def build(folder: Path) -> None:
    """Serve one build."""
    task = json.loads((folder / "task.json").read_text())
    recipe = task["recipe"]
    print(f"importing {task['name']}", file=sys.stderr, flush=True)
    if recipe["loss"] != "cross_entropy":
        say(
            event="failed",
            code=3003,
            detail=f"The recipe's loss {recipe['loss']!r} is unknown; did you mean cross_entropy?",
        )
        return
    say(event="progress", stage="kernels", done=3, total=10)
    print("kernel 3 of 10", file=sys.stderr, flush=True)
    while "wait_for" in recipe and not Path(recipe["wait_for"]).exists():
        time.sleep(0.02)
    say(event="progress", stage="kernels", done=10, total=10)
    print("packing", file=sys.stderr, flush=True)
    data, members = handmade.pack(task["name"], task["target"], recipe)
    (folder / "out" / "artifact.pock").write_bytes(data)
    summary = json.loads(members["manifest.json"])["summary"]
    say(event="artifact", summary={**summary, "compile_seconds": 1.5, "cache_hits": 0})


if __name__ == "__main__":
    if sys.argv[1] == "describe":
        say(event="compiler", version="tests", targets=TARGETS)
    elif sys.argv[1] == "build":
        build(Path(sys.argv[2]))
