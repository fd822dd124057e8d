"""Stands in for the worker command in tests of the queue: behaves as the build's name tells it to; compiles nothing."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from sqlalchemy.orm import Session

from pock_server.blobs.opening import open_store
from pock_server.builds.tables import BuildRecord
from pock_server.db.engine import make_engine
from pock_server.settings import Settings


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def build(settings: Settings, build_id: str) -> None:
    with Session(make_engine(settings)) as session:
        behaviour = session.get_one(BuildRecord, build_id).name
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
        (settings.data_dir / "worker.pid").write_text(str(os.getpid()))
        time.sleep(600)
    else:
        digest, size = open_store(settings).put_bytes(b"artifact")
        manifest, manifest_size = open_store(settings).put_bytes(b'{"format": 1}')
        members = {"manifest.json": {"sha256": manifest, "size": manifest_size}}
        artifact = {"digest": digest, "size": size, "members": members, "executable": "bin/model", "inputs": []}
        say(event="artifact", artifact={**artifact, "summary": {"kernels": 5}})


def describe(settings: Settings) -> None:
    target = {"name": "host", "description": "this machine", "triple": "x86_64-linux-musl", "cores": 1}
    draft = settings.data_dir / "compiler.draft"
    draft.write_text(json.dumps({"version": "fake", "targets": [target]}))
    draft.replace(Path(settings.compiler_file))


if sys.argv[1] == "describe":
    describe(Settings())
else:
    build(Settings(), sys.argv[1])
