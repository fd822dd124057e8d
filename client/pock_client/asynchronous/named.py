"""What models, datasets and the like have in common: they are listed, found, tagged, and deleted."""

from __future__ import annotations

from typing import Generic, TypeVar

from pock_client.asynchronous.transport import Page, Transport
from pock_client.calls import Call, part, sending
from pock_client.errors import Damaged, PockClientError
from pock_client.pausing import AsyncStream
from pock_client.references import Reference, known_id

T = TypeVar("T")


class Named(Generic[T]):
    """Things at one path, each with an id and a name."""

    words = ""
    path = ""
    kind: type[T]
    page: type[Page[T]]

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def get(self, ident: str) -> T:
        """The one with this id. Raises ServiceError with status 404 if there is none."""
        return await self._transport.json(Call("GET", f"{self.path}/{part(ident)}"), self.kind)

    def list(self, **filters: str | None) -> AsyncStream[T]:
        """All of them, newest first, fetched page by page; `filters` are those of the service's interface."""
        return self._transport.pages(self.path, self.page, filters)

    async def find(self, reference: str) -> T:
        """The one with this id, or the newest of this name. Raises PockClientError if there is none."""
        ident = known_id(reference)
        if ident is not None:
            return await self.get(ident)
        found = await self._transport.first(self.path, self.page, {}, lambda one: self.fits(one, reference))
        if found is None:
            raise PockClientError(f"there is no {self.words} {reference!r}")
        return found

    def fits(self, one: T, name: str) -> bool:
        """Whether a name means this one."""
        return getattr(one, "name", None) == name

    async def id_of(self, reference: Reference) -> str:
        """The id of what is given: of an id nothing is asked."""
        ident = known_id(reference)
        if ident is not None or not isinstance(reference, str):
            return ident or ""
        return str(getattr(await self.find(reference), "id", ""))

    async def delete(self, ident: str) -> None:
        """Forget it. Raises ServiceError with status 409 while something was made of it."""
        await self._transport.read(Call("DELETE", f"{self.path}/{part(ident)}"))


class Versioned(Named[T]):
    """Things whose names have versions and tags."""

    async def find(self, reference: str) -> T:
        """What a reference means: an id, NAME (its newest version), NAME:v3, NAME:TAG or NAME@sha256:DIGITS. Raises
        PockClientError if there is none."""
        ident = known_id(reference)
        if ident is not None:
            return await self.get(ident)
        found = await self._transport.first(self.path, self.page, {"ref": reference}, lambda one: True)
        if found is None:
            raise PockClientError(f"there is no {self.words} {reference!r}")
        if not reference.startswith(str(getattr(found, "name", ""))):  # a service of before there were references
            raise Damaged(
                f"the service answers with another {self.words} than {reference!r}: is it older than versions?"
            )
        return found

    async def tag(self, ident: str, tag: str) -> T:
        """Let a tag name this version, and no other one of its name."""
        return await self._transport.json(sending("PUT", f"{self.path}/{part(ident)}/tags/{part(tag)}"), self.kind)

    async def untag(self, ident: str, tag: str) -> None:
        """Take a tag from this version."""
        await self._transport.read(Call("DELETE", f"{self.path}/{part(ident)}/tags/{part(tag)}"))
