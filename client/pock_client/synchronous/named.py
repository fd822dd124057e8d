# Generated from pock_client/asynchronous by `python -m client.generate`.
"""What models, datasets and the like have in common: they are listed, found, tagged, and deleted."""

from __future__ import annotations

from typing import Generic, TypeVar

from pock_client.calls import Call, part, sending
from pock_client.errors import Damaged, PockClientError
from pock_client.pausing import Stream
from pock_client.references import Reference, known_id
from pock_client.synchronous.transport import Page, Transport

T = TypeVar("T")


class Named(Generic[T]):
    """Things at one path, each with an id and a name."""

    words = ""
    path = ""
    kind: type[T]
    page: type[Page[T]]

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, ident: str) -> T:
        """The one with this id. Raises ServiceError with status 404 if there is none."""
        return self._transport.json(Call("GET", f"{self.path}/{part(ident)}"), self.kind)

    def list(self, **filters: str | None) -> Stream[T]:
        """All of them, newest first, fetched page by page; `filters` are those of the service's interface."""
        return self._transport.pages(self.path, self.page, filters)

    def find(self, reference: str) -> T:
        """The one with this id, or the newest of this name. Raises PockClientError if there is none."""
        ident = known_id(reference)
        if ident is not None:
            return self.get(ident)
        found = self._transport.first(self.path, self.page, {}, lambda one: self.fits(one, reference))
        if found is None:
            raise PockClientError(f"there is no {self.words} {reference!r}")
        return found

    def fits(self, one: T, name: str) -> bool:
        """Whether a name means this one."""
        return getattr(one, "name", None) == name

    def id_of(self, reference: Reference) -> str:
        """The id of what is given: of an id nothing is asked."""
        ident = known_id(reference)
        if ident is not None or not isinstance(reference, str):
            return ident or ""
        return str(getattr(self.find(reference), "id", ""))

    def delete(self, ident: str) -> None:
        """Forget it. Raises ServiceError with status 409 while something was made of it."""
        self._transport.read(Call("DELETE", f"{self.path}/{part(ident)}"))


class Versioned(Named[T]):
    """Things whose names have versions and tags."""

    def find(self, reference: str) -> T:
        """What a reference means: an id, NAME (its newest version), NAME:v3, NAME:TAG or NAME@sha256:DIGITS. Raises
        PockClientError if there is none."""
        ident = known_id(reference)
        if ident is not None:
            return self.get(ident)
        found = self._transport.first(self.path, self.page, {"ref": reference}, lambda one: True)
        if found is None:
            raise PockClientError(f"there is no {self.words} {reference!r}")
        if not reference.startswith(str(getattr(found, "name", ""))):  # a service of before there were references
            raise Damaged(
                f"the service answers with another {self.words} than {reference!r}: is it older than versions?"
            )
        return found

    def tag(self, ident: str, tag: str) -> T:
        """Let a tag name this version, and no other one of its name."""
        return self._transport.json(sending("PUT", f"{self.path}/{part(ident)}/tags/{part(tag)}"), self.kind)

    def untag(self, ident: str, tag: str) -> None:
        """Take a tag from this version."""
        self._transport.read(Call("DELETE", f"{self.path}/{part(ident)}/tags/{part(tag)}"))
