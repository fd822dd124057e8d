"""Devices and what lets them in, and the targets that builds are for."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from pock_client.asynchronous.named import Named
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call, part, sending
from pock_client.errors import PockClientError
from pock_client.pausing import AsyncStream
from pock_client.schema import (
    Device,
    DeviceChange,
    DevicePage,
    DeviceState,
    EnrolmentToken,
    EnrolmentTokenIn,
    Target,
    TargetList,
)


class Devices(Named[Device]):
    """`client.devices`."""

    words = "device"
    path = "/devices"
    kind = Device
    page = DevicePage

    def list(self, on: str | None = None, **filters: str | None) -> AsyncStream[Device]:
        """All devices, newest first, or those that a selector such as "pool=kitchen,ram>=2GiB" chooses. Raises
        ServiceError with status 422 for a selector that is none."""
        return super().list(on=on, **filters)

    def fits(self, one: Device, name: str) -> bool:
        """Revoked devices leave their name to others."""
        return one.name == name and one.state != DeviceState.revoked

    async def count(self, on: str | None = None) -> int:
        """How many devices there are, or a selector chooses. Raises PockClientError for a service that is older than
        selectors."""
        page = await self._transport.json(Call("GET", self.path, {"on": on, "limit": 1}), DevicePage)
        if page.total is None:
            raise PockClientError("the service is older than selectors of devices, and does not count them")
        return page.total

    async def change(
        self,
        ident: str,
        *,
        name: str | None = None,
        pool: str | None = None,
        labels: Mapping[str, str | None] | None = None,
    ) -> Device:
        """Change what is given; the rest stays. A label of None is taken away."""
        body = DeviceChange(name=name or UNSET, pool=pool or UNSET, labels=UNSET if labels is None else dict(labels))
        return await self._transport.json(sending("PATCH", f"{self.path}/{part(ident)}", body), Device)

    async def revoke(self, ident: str) -> None:
        """Let a device do nothing any more; it has to be enrolled anew."""
        await self._transport.read(Call("DELETE", f"{self.path}/{part(ident)}"))


class EnrolmentTokens:
    """`client.enrolment_tokens`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        name: str | None = None,
        pool: str | None = None,
        ttl_seconds: int | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> EnrolmentToken:
        """A token that lets one device in; it is shown this once. What is given, the device will have."""
        body = EnrolmentTokenIn(
            name=name or UNSET,
            pool=pool or UNSET,
            ttl_seconds=ttl_seconds or UNSET,
            labels=UNSET if not labels else dict(labels),
        )
        return await self._transport.json(sending("POST", "/enrollment-tokens", body), EnrolmentToken)


class Targets:
    """`client.targets`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def list(self) -> tuple[Target, ...]:
        """All of them."""
        return tuple((await self._transport.json(Call("GET", "/targets"), TargetList)).items)
