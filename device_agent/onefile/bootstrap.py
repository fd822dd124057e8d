"""What a one-file agent does first: unpacks itself once, where only its user can write, and starts from there.

A native library cannot be imported from within an archive. Becomes `__main__.py` of the file; beside it are packages
for all machines in `any/`, those of one architecture in a folder of its name, and `build-id`, which names what is
unpacked. Runs before anything is known of the Python it meets, so it keeps to the syntax of 3.6.
"""

import fcntl
import os
import platform
import shutil
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path

OLDEST = "3.9.2"
KEPT = 2
"""Unpacked versions that stay: the present one and the one before, to which an update can return. Others stay while an
agent runs from them: several agents of one user, each of its own version, unpack to one place."""


INSTEAD = "; use `pip install pock-agent` here (in Termux after `pkg install python-cryptography`)"


def main(archive: str) -> None:
    """Make the agent of the file `archive` importable, and run it."""
    if sys.version_info < tuple(map(int, OLDEST.split("."))):
        sys.exit(f"pock-agent: Python {OLDEST} or newer is needed; this is {sys.version.split()[0]}")
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine())
    if sys.platform != "linux" or hasattr(sys, "getandroidapilevel") or sys.maxsize < 1 << 32:
        bits = 64 if sys.maxsize > 1 << 32 else 32
        sys.exit(f"pock-agent: this file is for 64-bit Linux, not {sys.platform} with {bits} bits{INSTEAD}")
    try:
        folder = held(archive, root(), machine)
    except (OSError, EOFError, ImportError, zipfile.BadZipFile, zlib.error, damage()) as error:
        sys.exit(f"pock-agent: the agent cannot be unpacked: {error}; set POCK_AGENT_UNPACKED to another folder")
    except LookupError as error:
        sys.exit(f"pock-agent: {error.args[0]}{INSTEAD}")
    sys.path.insert(0, str(folder))
    try:
        import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
    except ImportError as error:
        sys.exit(f"pock-agent: the libraries in this file do not fit this system ({error}){INSTEAD}")
    from pock_agent.cli import main as run

    sys.exit(run())


def damage() -> "type[Exception]":
    """What the decompressor of the libraries raises; a Python without it cannot unpack them."""
    import lzma

    return lzma.LZMAError


def root() -> Path:
    """Where unpacked versions lie."""
    chosen = os.environ.get("POCK_AGENT_UNPACKED")
    if chosen:
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/cache/pock-agent")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pock-agent"


def held(archive: str, below: Path, machine: str) -> Path:
    """The folder with the file's packages, which no other agent drops while this process lives."""
    while True:
        target = unpacked(archive, below, machine)
        try:
            number = os.open(str(target), os.O_RDONLY)
        except FileNotFoundError:  # dropped at this moment
            continue
        _lock(number, fcntl.LOCK_SH)
        if target.is_dir() and os.path.samestat(os.fstat(number), target.stat()):
            return target
        os.close(number)


def _lock(number: int, how: int) -> bool:
    """Whether the folder could be locked; a file system may have no locks, and then nothing is dropped."""
    try:
        fcntl.flock(number, how)
    except OSError:
        return False
    return True


def unpacked(archive: str, below: Path, machine: str) -> Path:
    """The folder with the file's packages; made whole or not at all, and synced before it has its name."""
    below.mkdir(parents=True, exist_ok=True, mode=0o700)
    state = below.stat()
    if state.st_uid != os.geteuid() or state.st_mode & 0o022:
        raise OSError(f"{below} is not only this user's to write to")
    with zipfile.ZipFile(archive) as file:
        if not any(name.startswith(machine + "/") for name in file.namelist()):
            raise LookupError(f"this file has no libraries for {machine}")
        target = below / file.read("build-id").decode()
        if target.is_symlink():
            raise OSError(f"{target} is a link")
        if not target.is_dir():
            made = Path(tempfile.mkdtemp(prefix=".new-", dir=str(below)))
            try:
                _extract(file, made, machine)
                os.rename(str(made), str(target))
                _sync(below)
            except OSError:
                if not target.is_dir():  # else another process was faster
                    raise
            finally:
                shutil.rmtree(str(made), ignore_errors=True)
            _drop_old(below, target)
    return target


def _extract(file: zipfile.ZipFile, made: Path, machine: str) -> None:
    folders = {made}
    for name in file.namelist():
        part, _, inside = name.partition("/")
        if part in ("any", machine) and inside:
            path = made / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            with file.open(name) as source, path.open("wb") as sink:
                shutil.copyfileobj(source, sink)
            _sync(path)
            folders.add(path.parent)
    for folder in folders:
        _sync(folder)


def _sync(path: Path) -> None:
    number = os.open(str(path), os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _drop_old(below: Path, present: Path) -> None:
    """Drop all but the version before the present one and those from which an agent runs, and what a kill left half
    unpacked an hour ago or earlier."""
    others = sorted((path for path in below.iterdir() if path != present and path.is_dir()), key=_age)
    whole = [path for path in others if not path.name.startswith(".new-")]
    abandoned = [path for path in others if path not in whole and present.stat().st_mtime - path.stat().st_mtime > 3600]
    for path in whole[KEPT - 1 :] + abandoned:
        _drop(path)


def _drop(path: Path) -> None:
    try:
        number = os.open(str(path), os.O_RDONLY)
    except OSError:
        return
    try:
        if _lock(number, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(str(path), ignore_errors=True)
    finally:
        os.close(number)


def _age(path: Path) -> float:
    return -path.stat().st_mtime


if __name__ == "__main__":
    main(sys.argv[0])
