"""What the machine gives: the data folder, keys in it, the page, open files, the time."""

import ctypes
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

from pock_server.doctor.findings import Finding, fail, ok, warn
from pock_server.settings import Settings

_LITTLE_ROOM = 2 << 30
_NO_ROOM = 200 << 20
_OTHER_FILES = 1024
_UNSYNCHRONISED = 5
"""`adjtimex` says TIME_ERROR."""
_TIMEX_BYTES = 512
"""More than any `struct timex` has."""


def data_folder(settings: Settings) -> Iterator[Finding]:
    """It can be written, by few, and there is room."""
    folder = settings.data_dir
    if not folder.exists():
        yield warn("data folder", f"{folder} is not there yet; the first start makes it.")
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield fail("data folder", f"{folder} cannot be written by user {os.getuid()}; change its owner.")
        return
    if folder.stat().st_mode & stat.S_IWOTH:
        yield warn("data folder", f"everybody may write to {folder}; run `chmod o-w {folder}`.")
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    says = f"{free / 2**30:.1f} GiB are free in {folder}"
    if free < _NO_ROOM:
        yield fail("data folder", f"{says}: builds and uploads fail; make room.")
    elif free < _LITTLE_ROOM:
        yield warn("data folder", f"{says}: that is little for builds and uploads.")
    else:
        yield ok("data folder", says)


def keys(settings: Settings) -> Iterator[Finding]:
    """Nobody else reads the private keys."""
    folder = settings.data_dir / "keys"
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    if not files:
        yield ok("keys", f"none in {folder}")
    open_ones = [path for path in files if _others_may_read(path)]
    for path in open_ones:
        yield fail("keys", f"others may read {path}; run `chmod 600 {path}`, and rotate the key if they did.")
    if files and not open_ones:
        yield ok("keys", f"{', '.join(path.name for path in files)}: for this user alone")


def _others_may_read(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)) and path.is_file()


def page(settings: Settings) -> Iterator[Finding]:
    """The dashboard is built."""
    if (settings.web_dist / "index.html").is_file():
        yield ok("page", f"in {settings.web_dist}")
    else:
        yield warn("page", f"there is no dashboard in {settings.web_dist}; run `make web`.")


def metrics(settings: Settings) -> Iterator[Finding]:
    """Who may read them."""
    if settings.metrics_token:
        yield ok("metrics", "for whoever has the token")
    elif settings.metrics_port is not None:
        yield ok("metrics", f"on {settings.metrics_address} port {settings.metrics_port}")
    else:
        yield ok("metrics", "for this machine alone; POCK_METRICS_TOKEN opens them to others")


def open_files(settings: Settings) -> Iterator[Finding]:
    """Each connection needs one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = settings.max_connections + _OTHER_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        says = f"a process may open {hard}, and {settings.max_connections} connections need {wanted}; raise the limit"
        yield warn("open files", f"{says} (LimitNOFILE=) or lower POCK_MAX_CONNECTIONS.")
    else:
        yield ok("open files", f"enough for {settings.max_connections} connections")


def clock(settings: Settings) -> Iterator[Finding]:
    """The kernel says whether NTP keeps it."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)  # all zero: read, set nothing
    state = ctypes.CDLL(None).adjtimex(buffer)
    if state < 0:
        yield warn("clock", "the system does not tell whether NTP keeps it; see that it does.")
    elif state == _UNSYNCHRONISED:
        yield warn("clock", "NTP does not keep it; devices' sessions need it right within 10 minutes (install chrony).")
    else:
        yield ok("clock", "kept by NTP")
