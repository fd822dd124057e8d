"""A build worker for a real service: it stores the fake model as the artifact of whatever build it is asked for."""

from __future__ import annotations

import hashlib
import json
import sys

from pock_server.blobs.opening import open_store
from pock_server.settings import Settings
from tests.agent import fake_model

PORTS = [
    {"name": "input", "dtype": "f32", "shape": [2, 4], "target": False, "optional": False},
    {"name": "labels", "dtype": "i64", "shape": [2], "target": True, "optional": False},
]


def main() -> None:
    settings = Settings()
    if sys.argv[1] == "describe":
        targets = [{"name": "host", "description": "this machine", "triple": "x86_64-linux-musl", "cores": 2}]
        settings.compiler_file.write_text(json.dumps({"version": "fake", "targets": targets}))
        return
    store = open_store(settings)
    summary = {"arena_bytes": 1000, "predicted_peak_bytes": 5000, "kernels": 3}
    manifest = {
        "format": 3,
        "name": "fake",
        "target": {"name": "host"},
        "recipe": {"batch": 2},
        "threads": 1,
        "summary": summary,
        "inputs": PORTS,
        "entry_points": {"executable": "bin/model"},
    }
    files = {
        "manifest.json": json.dumps(manifest).encode(),
        "bin/model": fake_model.SOURCE,
        "params.safetensors": b"parameters" * 100,
    }
    members = {}
    for name, content in files.items():
        digest, size = store.put_bytes(content)
        members[name] = {"sha256": digest, "size": size}
    whole = b"".join(files.values())
    digest, size = store.put_bytes(whole)
    assert digest == hashlib.sha256(whole).hexdigest()
    artifact = {
        "digest": digest,
        "size": size,
        "members": members,
        "executable": "bin/model",
        "inputs": PORTS,
        "summary": summary,
    }
    print(json.dumps({"event": "artifact", "artifact": artifact}), flush=True)


if __name__ == "__main__":
    main()
