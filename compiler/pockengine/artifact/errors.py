"""One error for each way an artifact can be wrong. All are ArtifactErrors: catch that unless the difference matters."""

from __future__ import annotations

from pockengine.errors import ArtifactError


class NotAnArchiveError(ArtifactError):
    """The file is no zip archive, or a truncated one."""


class AlteredArchiveError(ArtifactError):
    """The archive's own structure differs from what the compiler writes for these members."""


class DuplicateMemberError(ArtifactError):
    """Two members have the same name."""


class UnsafePathError(ArtifactError):
    """A member's name leads out of the folder it would be unpacked to."""


class MissingManifestError(ArtifactError):
    """There is no `manifest.json`."""


class BadManifestError(ArtifactError):
    """`manifest.json` is not valid JSON, or not what a manifest must be."""


class UnsupportedFormatError(ArtifactError):
    """The artifact's format version is not one that this version reads."""


class MissingMemberError(ArtifactError):
    """The manifest lists a member that is not there."""


class ExtraMemberError(ArtifactError):
    """A member is there that the manifest does not list."""


class DigestMismatchError(ArtifactError):
    """A member's bytes are not those the manifest promises."""


def quantised_sentence(name: str, format: str) -> str:
    """What is said of other contents for a weight that is kept quantised."""
    return (
        f"'{name}' is kept in {format} and takes no floating-point weights: "
        "compile a model that has them, or without 'frozen'"
    )
