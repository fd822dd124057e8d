"""Artifacts: manifest, deterministic archive, verification, running on this machine."""

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
from pockengine.artifact.run import model_command, run_artifact
from pockengine.artifact.session import Evaluation, Session
from pockengine.artifact.tensors import Tensors
from pockengine.artifact.training import Course, Trained, Validation, train
from pockengine.errors import WrongMachineError

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
    "Tensors",
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
