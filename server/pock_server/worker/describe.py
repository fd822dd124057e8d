"""Writes down what the compiler can do, for processes that may not import it."""

import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path

import pockengine
from pock_server.settings import Settings

_SOURCES = ("*.py", "*.toml", "*.c", "*.h")


def compiler_version() -> str:
    """Release and digest of the compiler's files: two compilers of one release with different code are different."""
    folder = Path(pockengine.__file__).parent
    found = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in folder.rglob(pattern)):
        found.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version('pockengine')}+{found.hexdigest()[:12]}"


def describe(settings: Settings) -> None:
    """Write version and targets, whole or not at all."""
    targets = [target.to_dict() for target in pockengine.targets()]
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    draft = settings.compiler_file.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps({"version": compiler_version(), "targets": targets}, sort_keys=True), encoding="utf-8")
    draft.replace(settings.compiler_file)
