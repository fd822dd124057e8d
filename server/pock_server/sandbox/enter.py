"""What a confined process executes first: gives up the last privileges, sets the limits, says on stdout, where it is
asked to, what it finds itself confined to, and becomes the program. `python -I -S enter.py ORDER PROGRAM ARGUMENT…`;
ORDER is JSON.

It runs alone, without the package around it."""

import json
import os
import resource
import sys


def main() -> None:
    order = json.loads(sys.argv[1])
    limits = order["limits"]
    for kind, value in (
        (resource.RLIMIT_DATA, limits["memory"]),
        (resource.RLIMIT_CPU, limits["seconds"]),
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_NOFILE, limits["files"]),
        (resource.RLIMIT_FSIZE, limits["disk"]),
        (resource.RLIMIT_CORE, 0),
    ):
        _limit(kind, value)
    if order["uid"] is not None:
        os.setgroups([])
        os.setresgid(order["uid"], order["uid"], order["uid"])
        os.setresuid(order["uid"], order["uid"], order["uid"])
    os.umask(order["umask"])
    if order["hidden"]:
        print(json.dumps(_findings(order)), flush=True)
    os.execvp(sys.argv[2], sys.argv[2:])


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _findings(order: "dict[str, list[str]]") -> "dict[str, object]":
    with open("/proc/self/status", encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":", 1) for line in file)
    with open("/proc/net/dev", encoding="ascii") as file:
        interfaces = [line.split(":")[0].strip() for line in file if ":" in line]
    return {
        "user": os.getuid(),
        "capabilities": int(status["CapEff"], 16),
        "no_new_privileges": status["NoNewPrivs"].strip() == "1",
        "interfaces": interfaces,
        "processes": sum(name.isdecimal() for name in os.listdir("/proc")),
        "visible": [path for path in order["hidden"] if os.path.lexists(path)],
    }


main()
