"""Says what the compiler can do, for processes that may not import it."""

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pockengine
from pockengine.targets import generations

_SOURCES = ("*.py", "*.toml", "*.c", "*.h")


def compiler_version() -> str:
    """Release and digest of the compiler's files: two compilers of one release with different code are different."""
    folder = Path(pockengine.__file__).parent
    found = hashlib.sha256()
    for path in sorted(path for pattern in _SOURCES for path in folder.rglob(pattern)):
        found.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{version('pockengine')}+{found.hexdigest()[:12]}"


def describe() -> tuple[str, list[dict[str, Any]]]:
    """The compiler's version, and what it says of each target, generations of GPUs behind the devices."""
    return compiler_version(), [target.to_dict() for target in (*pockengine.targets(), *generations())]
