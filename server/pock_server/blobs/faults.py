"""What can be wrong with the object store, or with the bytes in it, in words for the rest of the service."""

from collections.abc import Iterator
from contextlib import contextmanager

from obstore.exceptions import BaseError

_FULL = ("No space left on device", "StorageFull", "Disk quota exceeded", "507 Insufficient Storage", "QuotaExceeded")
"""What stores say in an error when they have no room, of which there is no type."""


class StoreFailed(Exception):
    """The store did not do what it was asked for; a later attempt may succeed."""


class StoreFull(StoreFailed):
    """The store has no room."""


class DigestMismatch(Exception):
    """Bytes on their way into the store are not those that were promised; nothing was stored."""


class BlobFault(Exception):
    """A blob that should be in the store is not there, or is not what it was."""

    def __init__(self, digest: str, reason: str) -> None:
        super().__init__(f"blob {digest} {reason}")
        self.digest = digest
        self.reason = reason


class MissingBlob(BlobFault):
    """The store has no such object."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest, "is missing")


class DamagedBlob(BlobFault):
    """The object's bytes have another length or digest."""


@contextmanager
def translated() -> Iterator[None]:
    """Errors of the store in the block become `StoreFailed`; a missing object stays FileNotFoundError."""
    try:
        yield
    except (BaseError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        text = str(error)
        # The rest of the text is for programmers of the library, and has the store's address in it.
        kind = StoreFull if any(phrase in text for phrase in _FULL) else StoreFailed
        raise kind(text.partition("\n")[0][:300]) from error
