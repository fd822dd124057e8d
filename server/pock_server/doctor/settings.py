"""Settings that are not known, or do not go together."""

import difflib
import ipaddress
from collections.abc import Iterator, Mapping

from pock_server.doctor.findings import Finding, fail, ok, warn
from pock_server.settings import Settings

_PREFIX = "POCK_"
_OTHERS = frozenset({"POCK_REQUIRE_ALL", "POCK_DEBUG", "POCK_CACHE_DIR", "POCK_CACHE_LIMIT"})
"""Variables of the compiler and the tests."""


def unknown(environment: Mapping[str, str], chosen: Settings) -> Iterator[Finding]:
    """Variables that look like settings and are none."""
    names = [name.upper() for name in type(chosen).model_fields]
    known = {_PREFIX + name for name in names}
    strange = sorted(n for n in environment if n.upper().startswith(_PREFIX) and n.upper() not in known | _OTHERS)
    for name in strange:
        close = difflib.get_close_matches(name.upper()[len(_PREFIX) :], names, n=1, cutoff=0.6)
        hint = f"did you mean {_PREFIX}{close[0]}?" if close else "docs/service.md lists them all."
        yield warn("settings", f"{name} is no setting; {hint}")
    given = sorted(chosen.model_fields_set)
    if not strange:
        yield ok("settings", f"{len(given)} differ from the defaults: {', '.join(given)}" if given else "the defaults")


def contradictions(chosen: Settings) -> Iterator[Finding]:
    """Settings that make each other useless."""
    if chosen.lease_seconds < 3 * chosen.heartbeat_seconds:
        yield warn(
            "settings",
            f"POCK_LEASE_SECONDS ({chosen.lease_seconds:g}) is shorter than three heartbeats "
            f"({chosen.heartbeat_seconds:g} s each): devices that work lose their runs; raise it.",
        )
    if chosen.poll_seconds > 60:
        yield warn("settings", "POCK_POLL_SECONDS above 60 has no effect: agents wait for a minute at most.")
    if chosen.build_disk_bytes < chosen.max_artifact_bytes:
        yield warn(
            "settings", "POCK_BUILD_DISK_BYTES is below POCK_MAX_ARTIFACT_BYTES: such an artifact cannot be made."
        )
    if bool(chosen.store_access_key) != bool(chosen.store_secret_key):
        yield fail("settings", "POCK_STORE_ACCESS_KEY and POCK_STORE_SECRET_KEY go together; one of them is missing.")
    if (chosen.store_endpoint or chosen.store_access_key) and not chosen.store_url:
        yield warn("settings", "POCK_STORE_ENDPOINT and its companions have no effect without POCK_STORE_URL (s3://…).")
    if chosen.runner == "none" and not chosen.database_url:
        yield warn("settings", "POCK_RUNNER=none with SQLite: no other process can build; leave POCK_RUNNER out.")
    if chosen.metrics_port is not None and not _is_loopback(chosen.metrics_address):
        yield warn(
            "settings",
            f"POCK_METRICS_ADDRESS {chosen.metrics_address} serves metrics without a token to whoever reaches it; "
            "see that only the monitoring does.",
        )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
