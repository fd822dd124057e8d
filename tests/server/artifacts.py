"""What stands in for the compiler and its artifacts: the service reads the manifest alone."""

import json

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


def artifact_files(name: str) -> dict[str, bytes]:
    """The members of the artifact of a build with this name."""
    manifest = {
        "format": 3,
        "name": name,
        "created_by": {"pockengine": "0"},
        "target": {"name": "host"},
        "recipe": {"batch": 2},
        "threads": 1,
        "summary": SUMMARY,
        "members": {},
        "programs": {"train": {"nodes": [], "slots": []}},
        "tensors": [],
        "inputs": PORTS,
        "outputs": [],
        "entry_points": {"executable": EXECUTABLE},
    }
    return {
        "manifest.json": json.dumps(manifest).encode(),
        EXECUTABLE: b"an executable of " + name.encode(),
        "bin/libmodel.so": b"a library",
        "params.safetensors": b"parameters",
    }
