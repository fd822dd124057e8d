"""Who belongs to a workspace, with which keys, and who changed what."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from pock_client.asynchronous.named import Named
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call, part, sending
from pock_client.pausing import AsyncStream
from pock_client.schema import (
    ApiKey,
    ApiKeyCreated,
    ApiKeyIn,
    ApiKeyPage,
    AuditEntry,
    AuditPage,
    Member,
    MemberChange,
    MemberIn,
    MemberPage,
    Role,
    Scope,
)


class Members(Named[Member]):
    """`client.members`."""

    words = "member"
    path = "/members"
    kind = Member
    page = MemberPage

    async def add(self, name: str, role: str, email: str | None = None) -> Member:
        """A new member: a person or a script."""
        body = MemberIn(name=name, role=Role(role), email=email or UNSET)
        return await self._transport.json(sending("POST", self.path, body), Member)

    async def change(
        self,
        ident: str,
        *,
        name: str | None = None,
        email: str | None = None,
        role: str | None = None,
        disabled: bool | None = None,
    ) -> Member:
        """Change what is given; the rest stays."""
        body = MemberChange(
            name=name or UNSET,
            email=email or UNSET,
            role=UNSET if role is None else Role(role),
            disabled=UNSET if disabled is None else disabled,
        )
        return await self._transport.json(sending("PATCH", f"{self.path}/{part(ident)}", body), Member)


class Keys:
    """`client.keys`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self, name: str, scopes: Iterable[str], ttl_days: int | None = None, member_id: str | None = None
    ) -> ApiKeyCreated:
        """A new key; it is shown this once."""
        body = ApiKeyIn(
            name=name,
            scopes=[Scope(one) for one in scopes],
            ttl_days=ttl_days or UNSET,
            member_id=member_id or UNSET,
        )
        return await self._transport.json(sending("POST", "/api-keys", body), ApiKeyCreated)

    def list(self) -> AsyncStream[ApiKey]:
        """All keys of the workspace, newest first."""
        return self._transport.pages("/api-keys", ApiKeyPage, {})

    async def revoke(self, ident: str) -> None:
        """Let a key open nothing any more."""
        await self._transport.read(Call("DELETE", f"/api-keys/{part(ident)}"))


class Audit:
    """`client.audit`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: str | None) -> AsyncStream[AuditEntry]:
        """Who changed what, newest first; `filters` are `action`, `object_kind`, `object_id`, `member_id`, `key_id`,
        `since` and `until` (RFC 3339)."""
        return self._transport.pages("/audit", AuditPage, filters)
