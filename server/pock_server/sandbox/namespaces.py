"""Confinement by the kernel's namespaces alone, where bubblewrap is not installed: `python -I -S namespaces.py ORDER
PROGRAM ARGUMENT…`; ORDER is JSON. See namespaces(7), pivot_root(2), mount_setattr(2).

It runs alone, without the package around it: the first process makes the namespaces and waits; the second is process 1
of the new ones, mounts what the program shall see and reaps; the third becomes the program. With any of the first two,
all end."""

import ctypes
import json
import os
import signal
import sys
from typing import Any

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 0x1000, 0x4000, 0x40000
_DETACH = 2
_AT_RECURSIVE, _AT_FDCWD = 0x8000, -100
_PR_SET_PDEATHSIG, _PR_CAP_AMBIENT, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 47, 24, 38
_SETGID, _SETUID = 6, 7
_LAST_CAPABILITY = 63
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_MOUNT_SETATTR = 442
_DEVICES = ("null", "zero", "full", "random", "urandom")
_libc = ctypes.CDLL(None, use_errno=True)


class _Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns")]


def main() -> None:
    order = json.loads(sys.argv[1])
    _die_with_parent(order["parent"])
    root = os.geteuid() == 0
    uid, gid = os.getuid(), os.getgid()
    _call("unshare", _libc.unshare(_NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET | (0 if root else _NEWUSER)))
    if not root:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    first = os.fork()
    if first:
        os._exit(_status(os.waitpid(first, 0)[1]))
    _die_with_parent(0)
    _mount_all(order)
    _drop_capabilities(order["drops_user"] and root)
    program = os.fork()
    if not program:
        os.setsid()
        os.execvp(sys.argv[2], sys.argv[2:])
    while True:
        ended, status = os.wait()
        if ended == program:
            os._exit(_status(status))


def _mount_all(order: "dict[str, Any]") -> None:
    _mount("none", "/", None, _REC | _PRIVATE)
    new: str = order["root"]  # a folder that nothing else uses: what is mounted on it, nobody outside sees
    _mount("tmpfs", new, "tmpfs", _NOSUID | _NODEV, "mode=0755,size=1m")
    _bind(order["scratch"], new + "/tmp", _NOSUID | _NODEV)  # before the places: some may lie in this machine's /tmp
    for folder in (*order["folders"], "/proc", "/dev"):
        os.makedirs(new + folder, mode=0o755, exist_ok=True)
    for host, inside, writable in order["places"]:
        _bind(host, new + inside, _NOSUID | _NODEV | (0 if writable else _RDONLY))
    for name, target in order["links"].items():
        os.symlink(target, new + name)
    _mount("proc", new + "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    for device in _DEVICES:
        _bind(f"/dev/{device}", f"{new}/dev/{device}", _NOSUID)
    os.makedirs(new + "/dev/shm")
    _mount("tmpfs", new + "/dev/shm", "tmpfs", _NOSUID | _NODEV, "mode=1777,size=64m")
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink("/proc/self/fd" + target, f"{new}/dev/{name}")
    os.chdir(new)
    _call("pivot_root", _libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."))
    _call("umount", _libc.umount2(b".", _DETACH))
    os.chdir("/")
    _protect("/", _RDONLY | _NOSUID | _NODEV, 0)


def _bind(host: str, place: str, flags: int) -> None:
    if os.path.isdir(host):
        os.makedirs(place, mode=0o755, exist_ok=True)
    else:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o644))
    _mount(host, place, None, _BIND | _REC)
    _protect(place, flags, _AT_RECURSIVE)


def _protect(place: str, flags: int, how: int) -> None:
    """The attributes of mount_setattr have the values of mount's flags."""
    wanted = _Attributes(set=flags)
    done = _libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, place.encode(), how, ctypes.byref(wanted), ctypes.c_size_t(ctypes.sizeof(wanted))
    )
    _call(f"mount_setattr {place}", done)


def _mount(source: str, place: str, kind: "str | None", flags: int, options: str = "") -> None:
    encoded = kind.encode() if kind else None
    done = _libc.mount(source.encode(), place.encode(), encoded, ctypes.c_ulong(flags), options.encode())
    _call(f"mount {place}", done)


def _drop_capabilities(keeps_user: bool) -> None:
    """Nothing that is executed from now on gains a privilege; root keeps what it needs to become another user."""
    for number in range(_LAST_CAPABILITY + 1):
        if not (keeps_user and number in (_SETGID, _SETUID)):
            _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, 4, 0, 0, 0)
    _call("no_new_privs", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _die_with_parent(parent: int) -> None:
    _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    if parent and os.getppid() != parent:
        os._exit(1)


def _status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _call(what: str, result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        sys.exit(f"{what}: {os.strerror(error)}")


main()
