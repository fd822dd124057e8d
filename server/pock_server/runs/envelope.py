"""The signed description of one piece of work: everything the device may fetch and run, and nothing else."""

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pock_server.artifacts.tables import ArtifactRecord
from pock_server.blobs.tables import BlobRecord
from pock_server.datasets.tables import DatasetRecord
from pock_server.runs.schemas import WorkEnvelope
from pock_server.runs.tables import RunRecord
from pock_server.signing import Signer

# Beside the executable: its parameters and derived constants.
_WEIGHTS = ("params.safetensors", "consts.safetensors")
# Threads' stacks, the loader and file mappings come on top of what the plan predicts.
_MEMORY_MARGIN = 512 << 20


@dataclass(frozen=True)
class Work:
    """A run and everything it needs."""

    run: RunRecord
    artifact: ArtifactRecord
    artifact_name: str
    required_bytes: int
    train: DatasetRecord | None
    evaluation: DatasetRecord | None
    initial_weights: BlobRecord | None
    as_delta: bool

    def members(self) -> dict[str, dict[str, Any]]:
        """The artifact's files that the device needs."""
        wanted = (self.artifact.executable, *_WEIGHTS)
        return {name: self.artifact.members[name] for name in wanted if name in self.artifact.members}

    def digests(self) -> frozenset[str]:
        """The blobs that the device may fetch."""
        data = [row.digest for row in (self.train, self.evaluation) if row is not None and row.device_id is None]
        data += [] if self.initial_weights is None else [self.initial_weights.digest]
        return frozenset([*data, *(str(member["sha256"]) for member in self.members().values())])


def seal(work: Work, signer: Signer, counter: int, now: datetime, expires_at: datetime) -> WorkEnvelope:
    """The work, signed."""
    payload = json.dumps(_payload(work, counter, now, expires_at), sort_keys=True, separators=(",", ":")).encode()
    return WorkEnvelope(
        payload=base64.b64encode(payload).decode(), key_id=signer.key_id, signature=signer.sign(payload)
    )


def _payload(work: Work, counter: int, now: datetime, expires_at: datetime) -> dict[str, Any]:
    run = work.run
    sizes = [row.size for row in (work.train, work.evaluation, work.initial_weights) if row is not None]
    data = {"train": _blob(work.train), "eval": _blob(work.evaluation)}
    if work.initial_weights is not None:
        data["weights"] = _blob(work.initial_weights)
    payload: dict[str, Any] = {
        "version": 1,
        "job_id": run.id,
        "run_id": run.id,
        "device_id": run.device_id,
        "attempt": run.attempt,
        "fence": run.fence,
        "counter": counter,
        "issued_at": now.isoformat(),
        "expires_at": expires_at.isoformat(),
        "artifact": {
            "digest": work.artifact.digest,
            "name": work.artifact_name,
            "target": run.target,
            "executable": work.artifact.executable,
            "members": work.members(),
        },
        "data": data,
        "run": {
            "entry": run.entry,
            "steps": run.steps,
            "threads": run.threads,
            "seed": run.seed,
            "save_weights": run.save_weights,
            **({"weights_form": "delta"} if work.as_delta else {}),
            **({"held_out": run.held_out} if run.held_out else {}),
            **({"profile": True} if run.profile else {}),
        },
        "limits": {
            "wall_seconds": int(run.deadline_seconds),
            "memory_bytes": 2 * work.required_bytes + sum(sizes) + _MEMORY_MARGIN,
            "required_bytes": work.required_bytes,
        },
    }
    if run.bench is not None:
        payload["bench"] = run.bench
    return payload


def _blob(row: DatasetRecord | BlobRecord | None) -> dict[str, Any] | None:
    if row is None:
        return None
    blob = {"sha256": row.digest, "size": row.size}
    return {"local": row.name, **blob} if isinstance(row, DatasetRecord) and row.device_id is not None else blob
