"""The artifact's manifest as docs/reference/binary.md fixes it, plus where the artifact is."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from pock_server.builds.schemas import SummaryOut
from pock_server.http.fields import Digest, Id

Phase = Literal["forward", "backward", "update"]
"""The part of a step to which a node belongs."""


class _Open(BaseModel):
    """The compiler may add fields."""

    model_config = ConfigDict(extra="allow")


class MemberOut(BaseModel):
    """A file inside the artifact; its bytes are the blob of this digest."""

    sha256: Digest
    size: int


class NodeOut(_Open):
    """One kernel call of a program."""

    index: int
    name: str
    op: str
    kernel: str
    flops: int
    bytes: int
    phase: str


class SlotOut(_Open):
    """A value's place in the arena and its life, as inclusive node indices."""

    value: str
    offset: int
    nbytes: int
    first: int
    last: int
    kind: str


class ProgramOut(_Open):
    """One entry point with its schedule and memory plan."""

    arena_bytes: int | None = None
    lower_bound_bytes: int | None = None
    nodes: list[NodeOut] = []
    slots: list[SlotOut] = []


class ArtifactTensorOut(_Open):
    """A parameter or optimizer state."""

    name: str
    dtype: str
    shape: list[int]
    nbytes: int
    role: Literal["param", "state"]
    trained: Literal["all", "channels", "frozen"]
    channels: list[int] | int | None


class PortOut(_Open):
    """An input or output of the step."""

    name: str
    dtype: str
    shape: list[int]


class ArtifactOut(_Open):
    """`manifest.json` of the artifact, plus `digest`, `size` and `build_id`."""

    digest: Digest
    size: int
    build_id: Id
    format: int
    name: str
    created_by: dict[str, str]
    target: dict[str, Any]
    recipe: dict[str, Any]
    threads: int
    summary: SummaryOut
    members: dict[str, MemberOut]
    programs: dict[str, ProgramOut]
    tensors: list[ArtifactTensorOut]
    inputs: list[PortOut]
    outputs: list[PortOut]
    entry_points: dict[str, str]
