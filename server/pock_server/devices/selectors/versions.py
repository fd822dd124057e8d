"""Orders the versions of agents."""

import re

_VERSION = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?(?:\.([0-9]{1,6}))?(?![0-9])")


def version_rank(version: str) -> int | None:
    """A number that orders versions by their first three numbers; None for a text that begins with no number.

    What follows them is not looked at: 0.2.0rc1 and 0.2.0 are equal.
    """
    found = _VERSION.match(version)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return (major * 10**6 + minor) * 10**6 + patch
