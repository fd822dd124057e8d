"""What a worker says of a pack of trials: `trials.json` of its artifact. Who wrote the model may have written it."""

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from pock_server.blobs.store import BlobStore
from pock_server.http.fields import Digest, Name, canonical_json, check_json

LISTED = "trials.json"
MOST_BYTES = 4 << 20
MOST_WORKLOADS = 64
MOST_INPUT_CHARACTERS = 64 << 10
"""Of all that a workload depends on; the longest part is a fused body."""
MOST_CHOICE_CHARACTERS = 16 << 10


_NEEDED = frozenset({"family", "device", "sizes"})
"""What the compiler looks for in every entry."""


class BadPack(Exception):
    """The pack is none; the message is one sentence."""


class Candidate(BaseModel):
    """One choice, which means something to the compiler alone."""

    model_config = ConfigDict(frozen=True)

    choice: Any
    text: str = Field(max_length=1000)
    nbytes: int = Field(ge=0, le=2**53)


class Workload(BaseModel):
    """One computation with its candidates, the model's choice first."""

    model_config = ConfigDict(frozen=True)

    key: Digest
    family: Name
    inputs: dict[str, str] = Field(max_length=64)
    least_ms: float = Field(ge=0, le=1e9, allow_inf_nan=False)
    candidates: list[Candidate] = Field(min_length=1, max_length=16)


_WORKLOADS = TypeAdapter(list[Workload])


def read_pack(store: BlobStore, member: dict[str, Any] | None) -> list[Workload]:
    """The workloads of a pack, in order. Raises `BadPack`, `BlobFault`."""
    if member is None or member["size"] > MOST_BYTES:
        raise BadPack(f"The build of trials left no {LISTED}, or too large a one.")
    try:
        found = json.loads(store.read(member["sha256"], MOST_BYTES))
        check_json(found)
        workloads = _WORKLOADS.validate_python(found)
    except (ValueError, RecursionError, ValidationError) as error:
        raise BadPack(f"The build of trials left a {LISTED} that cannot be read: {str(error)[:300]}") from None
    if not 0 < len(workloads) <= MOST_WORKLOADS or len({one.key for one in workloads}) < len(workloads):
        raise BadPack(f"The build of trials lists {len(workloads)} workloads, or one of them twice.")
    for one in workloads:
        check_inputs(one.inputs, [candidate.choice for candidate in one.candidates])
        if one.key != key_of(one.inputs):
            raise BadPack("The build of trials lists a workload under another one's key.")
    return workloads


def key_of(inputs: dict[str, str]) -> str:
    """The SHA-256 by which the compiler finds a workload."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def check_inputs(inputs: dict[str, str], choices: list[Any]) -> None:
    """Raise `BadPack` for what is no workload, or too long to be kept for each."""
    if not inputs.keys() >= _NEEDED:
        raise BadPack(f"A workload has no {' or no '.join(sorted(_NEEDED - inputs.keys()))}.")
    if len(canonical_json(inputs)) > MOST_INPUT_CHARACTERS:
        raise BadPack(f"A workload depends on more than {MOST_INPUT_CHARACTERS} characters.")
    if any(len(canonical_json(choice)) > MOST_CHOICE_CHARACTERS for choice in choices):
        raise BadPack(f"A choice has more than {MOST_CHOICE_CHARACTERS} characters.")
