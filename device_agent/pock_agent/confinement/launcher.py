"""Runs in the child, a small program between the agent and the model: confines itself, then becomes the model.

A program of its own instead of a `preexec_fn`, because code between fork and exec in a process with threads can
deadlock. It takes one argument, a JSON object (`child.Confinement` writes it), reports in one JSON line on the
descriptor named there what it could and could not enforce, and executes the command. It must import nothing of the
package: it is run with `python -I -S`.
"""

import ctypes
import errno
import json
import os
import resource
import signal
import sys

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38


def main() -> None:
    """Confine this process as the specification says and execute its command."""
    specification = json.loads(sys.argv[1])
    status = specification["status_descriptor"]
    os.set_inheritable(status, False)
    os.chdir(specification["folder"])
    # The limits come last: a limit on memory or files must not stop the launcher itself half-way.
    enforced = {
        "network": not _leave_network(),
        "oom_first": _volunteer_for_the_oom_killer(),  # before the change of user, which makes that file root's
        "user": _drop_user(specification["user"]),
        "tied_to_agent": _tie_to_agent(specification["agent"]),
        "limits": _limit(specification["limits"]),
    }
    os.write(status, json.dumps(enforced).encode() + b"\n")
    try:
        os.execve(specification["command"][0], specification["command"], specification["environment"])
    except OSError as error:
        why = error.strerror
        if error.errno == errno.ENOEXEC:
            why = "the artifact's program is none that this device runs; build it for this device, with the backend 'c'"
        os.write(status, json.dumps({"error": f"cannot execute: {why}"}).encode() + b"\n")
        os._exit(127)


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _leave_network() -> bool:
    """Move into an empty network namespace; a user namespace makes that possible without root on most systems."""
    if not sys.platform.startswith("linux"):
        return False
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        return bool(_library().unshare(CLONE_NEWNET) == 0)
    if _library().unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        except OSError:
            break  # the namespace works without a mapping; ids only look like nobody's inside
    return True


def _drop_user(user: "list[int] | None") -> int:
    """Become the given user and group, for good; the user's number."""
    if user is not None:
        os.setgroups([])
        os.setgid(user[1])
        os.setuid(user[0])
    os.umask(0o077)
    if sys.platform.startswith("linux"):
        _library().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return os.getuid()


def _tie_to_agent(agent: int) -> bool:
    """Die with the agent, even when it is killed outright. Only after the change of user, which resets it."""
    if not sys.platform.startswith("linux"):
        return False
    tied = _library().prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0
    if os.getppid() != agent:
        os._exit(125)
    return bool(tied)


def _volunteer_for_the_oom_killer() -> bool:
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return False
    return True


def _limit(limits: "dict[str, int]") -> "list[str]":
    """Set each limit, soft and hard; the names of those that hold."""
    held = []
    for name, value in limits.items():
        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (bound, bound))
        except (OSError, ValueError):
            continue
        held.append(name)
    return held


if __name__ == "__main__":
    main()
