"""Files that survive a power cut: each is replaced whole, and a damaged one is an error that names it."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import fields
from pathlib import Path

from pock_agent.errors import AgentError
from pock_agent.values import JsonObject


def write_atomically(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace `path` so that a power cut leaves the old content or the new, never a part of either."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make a rename in `path` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: JsonObject) -> None:
    """Store one JSON object atomically."""
    write_atomically(path, json.dumps(value, indent=1, sort_keys=True).encode())


def read_json(path: Path) -> JsonObject | None:
    """The object stored at `path`; None when there is none. A damaged file is an error that names it."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise AgentError(f"{path} is not readable for this user; run the agent as the user who enrolled it") from error
    except ValueError as error:
        raise AgentError(f"{path} is damaged ({error}); remove it, or enrol again in a new state directory") from error
    if not isinstance(value, dict):
        raise AgentError(f"{path} is damaged: it holds no JSON object; enrol again in a new state directory")
    return value


def known(kind: type, stored: JsonObject) -> JsonObject:
    """What a record of this class knows of what is stored. A newer agent, which was given up, may have stored more."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in stored.items() if name in names}
