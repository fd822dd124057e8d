"""Whether a target's processor is that of this machine."""

from __future__ import annotations

from ...targets import Target, get


def is_host(target: Target) -> bool:
    """The same system and processor, whatever it multiplies in."""
    host = get("host")
    return (target.triple, target.mcpu) == (host.triple, host.mcpu)
