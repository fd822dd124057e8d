"""Stands in for the worker command in tests of the queue: behaves as the build's name tells it to; compiles nothing."""

import json
import os
import signal
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

MANIFEST = {
    "format": 1,
    "name": "net",
    "created_by": {},
    "target": {},
    "recipe": {},
    "threads": 1,
    "summary": {},
    "members": {},
    "programs": {},
    "tensors": [],
    "inputs": [],
    "outputs": [],
    "entry_points": {"executable": "bin/model"},
}


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def build(folder: Path) -> None:
    task = json.loads((folder / "task.json").read_text())
    behaviour = task["name"]
    say(event="log", text=f"asked to {behaviour}")
    say(event="progress", stage="codegen", done=1, total=4)
    print("a line that is not JSON", flush=True)
    print("a line on stderr", file=sys.stderr, flush=True)
    if behaviour == "fail":
        say(event="failed", code=3002, detail="Operator Foo is not supported.")
    elif behaviour == "crash":
        sys.exit(7)
    elif behaviour == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif behaviour == "hang":
        (folder / "worker.pid").write_text(str(os.getpid()))
        time.sleep(600)
    elif "search" in task:
        sys.path.insert(0, str(Path(__file__).parents[2]))
        from tests.server.artifacts import leave_search

        leave_search(folder)
    else:
        with zipfile.ZipFile(folder / "out" / "artifact.pock", "w") as archive:
            archive.writestr("bin/model", "a program")
            archive.writestr("manifest.json", json.dumps(MANIFEST))
        say(event="artifact", summary={"kernels": 5})


CHECK: dict[str, Any] = {"supported": True, "missing_weights": False, "param_count": 3, "flops_forward": 6}
CHECK |= {"operators": [], "unsupported": [], "inputs": {}, "outputs": {}, "layers": [], "recipes": {}}
FIT = {"predicted_peak_bytes": 7, "memory": "ram", "memory_bytes": 9, "ram_bytes": 9, "fits": True}
BYTES = {f"{part}_bytes": 1 for part in ("param", "state", "const", "input", "arena", "lower_bound", "saved")}
COUNTS = dict.fromkeys(("nodes_forward", "nodes_backward", "nodes_backward_dense", "kernels"), 1)
ESTIMATE: dict[str, Any] = {
    **FIT,
    **BYTES,
    **COUNTS,
    "target": "host",
    "threads": 1,
    "batch": 2,
    "step_ms": 0.5,
    "flops": {},
}
ESTIMATE |= {"parameters": 3, "trained_parameters": 1, "layers": [], "recipe": {}}


def answer() -> None:
    """Each question is answered as its recipe tells; the first child that is told to die does."""
    for line in sys.stdin:
        question = json.loads(line)
        number = question["number"]
        if question["ask"] == "check":
            say(event="answered", number=number, content=CHECK)
            continue
        behaviour = question["recipe"]["behaviour"]
        print("a line on stderr", file=sys.stderr, flush=True)
        if behaviour == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif behaviour == "hang":
            time.sleep(600)
        elif behaviour == "talk":
            while True:
                print("x" * 4096, file=sys.stderr, flush=True)
        elif behaviour == "garbage":
            print("not JSON", flush=True)
        elif behaviour == "other":
            say(event="answered", number=number + 1, content={"nodes": [], "edges": []})
        elif behaviour == "nested":
            print("[" * 100_000, flush=True)
        elif behaviour == "wrong":
            say(event="answered", number=number, content={"nodes": [{"name": "x"}], "edges": []})
        elif behaviour == "endless":
            say(event="answered", number=number, content={"nodes": [], "edges": [[2**70, 0]]})
        elif behaviour == "refuse":
            say(event="refused", number=number, code=3003, detail="no such key 'x'", line=7)
        elif question["ask"] == "estimate":
            say(event="answered", number=number, content=ESTIMATE)
        else:
            say(event="answered", number=number, content={"nodes": [], "edges": [[os.getpid(), 0]]})


if sys.argv[1] == "describe":
    target = {"name": "host", "description": "this machine", "triple": "x86_64-linux-musl", "cores": 1}
    say(event="compiler", version="fake", targets=[target])
elif sys.argv[1] == "answer":
    answer()
elif sys.argv[1] == "build":
    build(Path(sys.argv[2]))
