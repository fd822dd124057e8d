"""A build worker that speaks the runner's protocol and stores the handmade artifact, so that the tests set the pace.

Called as the service calls its own worker: with a build's id, or with `describe`. A recipe with `wait_for` holds the
build at 3 of 10 until that file exists; a recipe whose loss is not `cross_entropy` fails as the compiler would.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from pock_server.builds.tables import BuildRecord
from pock_server.services import Services, make_services
from pock_server.settings import Settings
from tests.web import handmade

TARGETS = [
    {"name": "host", "description": "this machine", "triple": "x86_64-linux-musl", "cores": 2},
    {"name": "raspberry-pi-4", "description": "Cortex-A72", "triple": "aarch64-linux-musl", "cores": 4},
]


def say(**event: Any) -> None:
    """One line to the runner."""
    print(json.dumps(event), flush=True)


def describe(services: Services) -> None:
    """Write down what can be built."""
    services.settings.compiler_file.write_text(json.dumps({"version": "tests", "targets": TARGETS}))


def build(services: Services, build_id: str) -> None:
    """Serve one build."""
    with services.database.read() as session:
        row = session.get(BuildRecord, build_id)
        assert row is not None
        name, target, recipe = row.name, row.target, row.recipe
    print(f"importing {name}", file=sys.stderr, flush=True)
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
    say(event="artifact", artifact=store(services, name, target, recipe))


def store(services: Services, name: str, target: str, recipe: dict[str, Any]) -> dict[str, Any]:
    """Put the artifact and its members into the blob store; what the runner wants to know about them."""
    data, members = handmade.pack(name, target, recipe)
    digest, size = services.blobs.put_bytes(data)
    stored = {}
    for path, content in members.items():
        member_digest, member_size = services.blobs.put_bytes(content)
        stored[path] = {"sha256": member_digest, "size": member_size}
    manifest = json.loads(members["manifest.json"])
    return {
        "digest": digest,
        "size": size,
        "members": stored,
        "executable": "bin/model",
        "inputs": manifest["inputs"],
        "summary": {**manifest["summary"], "compile_seconds": 1.5, "cache_hits": 0},
    }


if __name__ == "__main__":
    opened = make_services(Settings())
    if sys.argv[1] == "describe":
        describe(opened)
    else:
        build(opened, sys.argv[1])
