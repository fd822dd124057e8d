"""The owner's policies: files on this device, which whoever owns it writes by hand."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pock_agent.policy.rules import BadPolicy, Policy, parse
from pock_agent.policy.verdict import Cause, Obstacle

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SYSTEM = "etc/pock-agent/policy.toml"
MAX_BYTES = 64 * 1024


@dataclass(frozen=True)
class Found:
    """Policies by whose they are, and what is in the way because a file cannot be followed."""

    policies: tuple[tuple[str, Policy], ...] = ()
    unreadable: tuple[Obstacle, ...] = ()


class OwnersFiles:
    """The files, read again when one of them changed. A file that cannot be followed forbids everything."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        self._seen: tuple[object, ...] | None = None
        self._found = Found()

    def read(self) -> Found:
        """What they say now."""
        seen = tuple(map(_marks, self._paths))
        if seen != self._seen:
            policies, unreadable = [], []
            for path in self._paths:
                source = f"the owner's {path}"
                try:
                    policy = _read(path)
                except BadPolicy as error:
                    says = f"it cannot be followed, so no work is done: {error}"
                    unreadable.append(Obstacle(source, Cause.UNREADABLE, says))
                else:
                    if policy is not None:
                        policies.append((source, policy))
            self._found, self._seen = Found(tuple(policies), tuple(unreadable)), seen
        return self._found


def _marks(path: Path) -> object:
    """What changes when the file does; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.errno
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> Policy | None:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise BadPolicy(f"it is longer than {MAX_BYTES} bytes")
        return parse(tomllib.loads(content.decode()))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadPolicy(f"it is not readable ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise BadPolicy(f"it is no TOML: {error}") from error
