"""What stands in for the compiler, its artifacts and what its searches find: the service reads little of it."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

TARGETS = [
    {"name": "host", "description": "this machine", "triple": "x86_64-linux-musl", "cores": 2},
    {"name": "raspberry-pi-4", "description": "a board", "triple": "aarch64-linux-musl", "cores": 4},
]
PORTS = [
    {"name": "input", "dtype": "f32", "shape": [2, 4], "target": False, "optional": False},
    {"name": "labels", "dtype": "i64", "shape": [2], "target": True, "optional": False},
    {"name": "sample_weight", "dtype": "f32", "shape": [2], "target": True, "optional": True},
]
SUMMARY = {"arena_bytes": 1000, "predicted_peak_bytes": 5000, "kernels": 3, "flops": {"forward": 1, "backward": 2}}
EXECUTABLE = "bin/model"
FOUND = {
    "peak_bytes": 1000,
    "step_ms": 0.5,
    "gap": 0.0,
    "trained_parameters": 12,
    "accuracy": None,
    "full_peak_bytes": 2000,
    "full_step_ms": 1.0,
    "full_accuracy": None,
    "joules": None,
    "learning_rates": None,
}
NODES = [
    {"index": index, "name": "fc", "op": op, "kernel": f"k{index}", "flops": 1, "bytes": 1, "phase": phase}
    for index, (op, phase) in enumerate((("matmul", "forward"), ("matmul", "backward"), ("sgd", "update")))
]
FOUND_FILES = {
    "recipe.yaml": b"loss: cross_entropy\nupdate:\n  - {params: 'fc.*'}\n",
    "found.json": b"{}",
    "report.html": b"<html>",
}


def artifact_files(name: str, executable: bytes | None = None, parameters: bytes = b"parameters") -> dict[str, bytes]:
    """The members of the artifact of a build with this name; each name has an executable of its own unless told."""
    manifest = {
        "format": 3,
        "name": name,
        "created_by": {"pockengine": "0"},
        "target": {"name": "host"},
        "recipe": {"batch": 2},
        "threads": 1,
        "summary": SUMMARY,
        "members": {},
        "programs": {"train": {"nodes": NODES, "slots": []}},
        "tensors": [],
        "inputs": PORTS,
        "outputs": [],
        "entry_points": {"executable": EXECUTABLE},
    }
    return {
        "manifest.json": json.dumps(manifest).encode(),
        EXECUTABLE: b"an executable of " + name.encode() if executable is None else executable,
        "bin/libmodel.so": b"a library",
        "params.safetensors": parameters,
    }


def leave_artifact(folder: Path, files: Mapping[str, bytes]) -> None:
    """Do the work of a build's child in its folder, with these members: the artifact, and the line that tells of it."""
    with zipfile.ZipFile(folder / "out" / "artifact.pock", "w") as archive:
        for member, data in files.items():
            archive.writestr(member, data)
    print(json.dumps({"event": "artifact", "summary": SUMMARY}), flush=True)


def leave_search(folder: Path) -> None:
    """Do the work of a search's child in its folder."""
    for name, content in FOUND_FILES.items():
        (folder / "out" / name).write_bytes(content)
    print(json.dumps({"event": "artifact", "summary": FOUND}), flush=True)
