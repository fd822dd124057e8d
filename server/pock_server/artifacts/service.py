"""Shows artifacts."""

import json
from typing import Any

from pock_server.artifacts.tables import ArtifactRecord
from pock_server.blobs.store import BlobStore

MANIFEST = "manifest.json"


def describe(row: ArtifactRecord, store: BlobStore) -> dict[str, Any]:
    """The manifest plus `digest`, `size` and `build_id`."""
    manifest: dict[str, Any] = json.loads(store.read(row.members[MANIFEST]["sha256"]))
    return {**manifest, "digest": row.digest, "size": row.size, "build_id": row.build_id}
