"""Artifacts: manifest, deterministic archive, verification, running on this machine."""

from typing import TYPE_CHECKING

from pockengine.artifact.archive import Content
from pockengine.artifact.artifact import Artifact
from pockengine.artifact.errors import (
    AlteredArchiveError,
    BadManifestError,
    DigestMismatchError,
    DuplicateMemberError,
    ExtraMemberError,
    MissingManifestError,
    MissingMemberError,
    NotAnArchiveError,
    UnsafePathError,
    UnsupportedFormatError,
)
from pockengine.artifact.manifest import FORMAT, EntryPoints, InputInfo, Manifest, Member, PortInfo, TensorInfo, parse
from pockengine.artifact.model_text import model_members
from pockengine.errors import WrongMachineError
from pockengine.lazy import lazily

if TYPE_CHECKING:
    from pockengine.artifact.run import model_command, run_artifact
    from pockengine.artifact.session import Evaluation, Session
    from pockengine.artifact.training import Course, Trained, Validation, train
else:  # what runs an artifact, which building one does not need
    __getattr__ = lazily(
        __name__,
        {
            "run": "model_command run_artifact",
            "session": "Evaluation Session",
            "training": "Course Trained Validation train",
        },
    )

__all__ = [
    "FORMAT",
    "AlteredArchiveError",
    "Artifact",
    "BadManifestError",
    "Content",
    "Course",
    "DigestMismatchError",
    "DuplicateMemberError",
    "EntryPoints",
    "Evaluation",
    "ExtraMemberError",
    "InputInfo",
    "Manifest",
    "Member",
    "MissingManifestError",
    "MissingMemberError",
    "NotAnArchiveError",
    "PortInfo",
    "Session",
    "TensorInfo",
    "Trained",
    "UnsafePathError",
    "UnsupportedFormatError",
    "Validation",
    "WrongMachineError",
    "model_command",
    "model_members",
    "parse",
    "run_artifact",
    "train",
]
