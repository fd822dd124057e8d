"""Shows artifacts."""

import json
from typing import Any

from pydantic import BaseModel, ValidationError

from pock_server.artifacts.schemas import Phase
from pock_server.artifacts.tables import ArtifactRecord
from pock_server.blobs.store import BlobStore

MANIFEST = "manifest.json"


class _Node(BaseModel):
    phase: Phase


class _Program(BaseModel):
    nodes: list[_Node] = []


class _Programs(BaseModel):
    programs: dict[str, _Program]


def describe(row: ArtifactRecord, store: BlobStore) -> dict[str, Any]:
    """The manifest plus `digest`, `size` and `build_id`."""
    manifest: dict[str, Any] = json.loads(store.read(row.members[MANIFEST]["sha256"]))
    return {**manifest, "digest": row.digest, "size": row.size, "build_id": row.build_id}


def profiled_phases(row: ArtifactRecord, store: BlobStore) -> list[Phase]:
    """The phase of each node of the program that devices profile: training, or prediction where nothing is trained.
    Empty where the manifest does not say it. Raises a `BlobFault` if that is missing, `StoreFailed` if it is away."""
    try:
        found = _Programs.model_validate_json(store.read(row.members[MANIFEST]["sha256"])).programs
    except ValidationError:
        return []
    program = found.get("train") or found.get("predict")
    return [node.phase for node in program.nodes] if program else []
