# Generated from pock_client/asynchronous by `python -m client.generate`.
"""What devices may do when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pock_client.calls import Call, Query, part
from pock_client.errors import PockClientError
from pock_client.schema import DevicePolicy, Policy, PoolPolicy
from pock_client.synchronous.transport import Transport


class Policies:
    """`client.policies`: of a device, by its id, or of a pool, by its name."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, *, device: str | None = None, pool: str | None = None) -> DevicePolicy | PoolPolicy:
        """What is set: of a device its own and its pool's policy. Raises ServiceError with status 404 for a pool
        without one."""
        path, query, kind = _place(device, pool)
        return self._transport.json(Call("GET", path, query), kind)

    def set(
        self,
        rules: Policy | Mapping[str, Any],
        *,
        device: str | None = None,
        pool: str | None = None,
        expected: str | None = None,
    ) -> DevicePolicy | PoolPolicy:
        """Set the policy, in place of the one before; rules that are left out are not set. With `expected`, a version
        ("none": of no rules), raises ServiceError with failure code 1028 if others are to be replaced."""
        path, query, kind = _place(device, pool, expected)
        content = msgspec.json.encode(rules if isinstance(rules, Policy) else dict(rules))
        call = Call("PUT", path, query, content=content, headers={"Content-Type": "application/json"})
        return self._transport.json(call, kind)

    def remove(self, *, device: str | None = None, pool: str | None = None, expected: str | None = None) -> None:
        """Take the policy away; `expected` as of `set`."""
        path, query, _ = _place(device, pool, expected)
        self._transport.read(Call("DELETE", path, query))


def _place(
    device: str | None, pool: str | None, expected: str | None = None
) -> tuple[str, Query, type[DevicePolicy] | type[PoolPolicy]]:
    """The path, the query and the answer's type. A pool's name may be any, so it is no part of a path."""
    if (device is None) == (pool is None):
        raise PockClientError("say either whose policy it is by `device`, or by `pool`")
    if device is not None:
        return f"/devices/{part(device)}/policy", {"expected": expected}, DevicePolicy
    return "/pools/policy", {"pool": pool, "expected": expected}, PoolPolicy
