"""A worker command as an attacker would have it, once a model made the compiler execute his code: does what the build's
name says, and logs what came of it. What it needs to know of the machine stands in the recipe."""

import ctypes
import json
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

MANIFEST: dict[str, Any] = {
    "format": 1,
    "name": "net",
    "created_by": {},
    "target": {},
    "recipe": {},
    "threads": 1,
    "summary": {},
    "members": {},
    "programs": {},
    "tensors": [],
    "inputs": [],
    "outputs": [],
    "entry_points": {"executable": "bin/model"},
}


def say(**message: object) -> None:
    print(json.dumps(message), flush=True)


def tried(what: str, attempt: Callable[[], object]) -> None:
    """Log whether an attempt succeeded."""
    try:
        result = attempt()
    except Exception as error:
        say(event="log", text=f"{what}: failed ({type(error).__name__})")
    else:
        say(event="log", text=f"{what}: SUCCEEDED {str(result)[:80]!r}")


def artifact(folder: Path, members: "dict[str, Any] | None" = None, **options: Any) -> Path:
    made = folder / "out" / "artifact.pock"
    with zipfile.ZipFile(made, "w", **options) as archive:
        for name, data in (members or {"bin/model": "a program", "manifest.json": json.dumps(MANIFEST)}).items():
            archive.writestr(name, data)
    return made


def with_manifest(folder: Path, text: "str | bytes") -> None:
    artifact(folder, {"bin/model": "a program", "manifest.json": text})


def succeed(folder: Path, told: "dict[str, Any]") -> None:
    artifact(folder)


def wait(folder: Path, told: "dict[str, Any]") -> None:
    """Stay until another build is over."""
    time.sleep(told.get("seconds", 3))
    artifact(folder)


def _beginning(path: Path) -> object:
    return os.listdir(path) if path.is_dir() else path.read_bytes()[:40]


def read(folder: Path, told: "dict[str, Any]") -> None:
    """Read whatever there is to steal."""
    for path in told["paths"]:
        tried(f"read {path}", partial(_beginning, Path(path)))
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        for name in ("environ", "root/etc/shadow", "cwd"):
            if int(pid) != os.getpid():
                tried(f"read /proc/PID/{name}", Path(f"/proc/{pid}/{name}").read_bytes)
    secrets = [name for name in os.environ if name.startswith("POCK_") or "SECRET" in name]
    say(event="log", text=f"environment: {'SUCCEEDED ' + str(secrets) if secrets else 'failed'}")
    for path in ("/usr/owned", "/base/owned", "/etc/owned", "/owned", str(Path(sys.prefix) / "owned")):
        tried(f"write {path}", partial(Path(path).write_text, "owned"))
    tried("mount", lambda: subprocess.run(["mount", "-t", "tmpfs", "x", "/tmp"], check=True, capture_output=True))
    tried("become root", lambda: os.setuid(0))
    artifact(folder)


def connect(folder: Path, told: "dict[str, Any]") -> None:
    """Reach other services of the machine, or other machines."""
    for port in told["ports"]:
        tried(f"connect to port {port}", partial(socket.create_connection, ("127.0.0.1", port), 3))
    local = socket.socket(socket.AF_UNIX)
    tried("connect to an abstract socket", lambda: local.connect("\0" + told["abstract"]))
    tried("connect to the world", lambda: socket.create_connection(("192.0.2.1", 80), 3))
    artifact(folder)


def signals(folder: Path, told: "dict[str, Any]") -> None:
    """Disturb the service and other builds."""
    tried("signal", lambda: os.kill(told["pid"], signal.SIGTERM))
    tried("see", lambda: os.stat(f"/proc/{told['pid']}"))

    def trace() -> None:
        if ctypes.CDLL(None).ptrace(16, told["pid"], 0, 0) != 0:
            raise PermissionError

    tried("trace", trace)
    tried("others' processes", lambda: 1 / max(0, sum(map(str.isdecimal, os.listdir("/proc"))) - 4))
    artifact(folder)


def poison(folder: Path, told: "dict[str, Any]") -> None:
    tried("cache", lambda: Path("/cache/poison").write_text("bad"))
    tried("base", lambda: Path("/base/objects/poison").write_text("bad"))
    (known,) = Path("/base/objects").iterdir()
    tried("base", lambda: known.write_text("bad"))
    tried("base", lambda: known.unlink())
    artifact(folder)


def find_poison(folder: Path, told: "dict[str, Any]") -> None:
    tried("cache", lambda: Path("/cache/poison").read_text())
    artifact(folder)


def fill_cache(folder: Path, told: "dict[str, Any]") -> None:
    Path("/cache/filler").write_bytes(bytes(2 << 20))
    artifact(folder)


def leave(folder: Path, told: "dict[str, Any]") -> None:
    """Leave a process that survives, holding the streams, in a session of its own."""
    code = f"import time\nwhile True: time.sleep(0.1)  # {told['mark']}"
    subprocess.Popen([sys.executable, "-I", "-S", "-c", code], start_new_session=True)
    artifact(folder)


def fork_bomb(folder: Path, told: "dict[str, Any]") -> None:
    try:
        while True:
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
    except OSError as error:
        say(event="log", text=f"forks: failed ({type(error).__name__})")
    artifact(folder)


def memory_bomb(folder: Path, told: "dict[str, Any]") -> None:
    """In many processes, each below a limit of its own."""
    for _ in range(8):
        if os.fork() == 0:
            block = mmap.mmap(-1, told["bytes"] // 4)
            for offset in range(0, len(block), 4096):
                block[offset] = 1
            time.sleep(60)
            os._exit(0)
    time.sleep(60)


def disk_bomb(folder: Path, told: "dict[str, Any]") -> None:
    data = bytes(1 << 20)
    for number in range(100_000):
        (folder / f"{number}").write_bytes(data)
        time.sleep(0.005)


def flood(folder: Path, told: "dict[str, Any]") -> None:
    stream = sys.stdout if told["stream"] == "stdout" else sys.stderr
    while True:
        stream.write(("x" * 70_000_000 if told["long"] else "x" * 100) + "\n")


def link(folder: Path, told: "dict[str, Any]") -> None:
    (folder / "out" / "artifact.pock").symlink_to(told["path"])


def folder_link(folder: Path, told: "dict[str, Any]") -> None:
    (folder / "out").rmdir()
    (folder / "out").symlink_to(told["path"])


def pipe(folder: Path, told: "dict[str, Any]") -> None:
    os.mkfifo(folder / "out" / "artifact.pock")


def directory(folder: Path, told: "dict[str, Any]") -> None:
    (folder / "out" / "artifact.pock").mkdir()


def huge(folder: Path, told: "dict[str, Any]") -> None:
    with artifact(folder).open("r+b") as file:
        file.truncate(1 << 40)


def zip_bomb(folder: Path, told: "dict[str, Any]") -> None:
    artifact(folder, {"bin/model": bytes(200 << 20)}, compression=zipfile.ZIP_DEFLATED)


def many_members(folder: Path, told: "dict[str, Any]") -> None:
    artifact(folder, {f"m{number}": b"" for number in range(20_000)})


def lying_directory(folder: Path, told: "dict[str, Any]") -> None:
    made = artifact(folder)
    data = bytearray(made.read_bytes())
    place = data.rindex(b"PK\1\2")
    data[place + 20 : place + 28] = struct.pack("<II", 0x7FFFFFFF, 0x7FFFFFFF)
    made.write_bytes(data)


def unsafe_name(folder: Path, told: "dict[str, Any]") -> None:
    artifact(folder, {"../../keys/signing.pem": b"mine", "manifest.json": json.dumps(MANIFEST)})


def deep_manifest(folder: Path, told: "dict[str, Any]") -> None:
    with_manifest(folder, "[" * 500_000)


def wide_manifest(folder: Path, told: "dict[str, Any]") -> None:
    with_manifest(folder, '{"a":[' + "[],".join([""] * 3_000_000) + "[]]}")


def nan_manifest(folder: Path, told: "dict[str, Any]") -> None:
    with_manifest(folder, json.dumps({**MANIFEST, "summary": {"kernels": float("nan")}}))


def surrogate_manifest(folder: Path, told: "dict[str, Any]") -> None:
    with_manifest(folder, json.dumps({**MANIFEST, "name": "\ud800"}))


def strange_manifest(folder: Path, told: "dict[str, Any]") -> None:
    with_manifest(folder, json.dumps({**MANIFEST, "inputs": [{"name": 1}]}))


def no_program(folder: Path, told: "dict[str, Any]") -> None:
    with_manifest(folder, json.dumps({**MANIFEST, "entry_points": {"executable": "bin/other"}}))


def other_backend(folder: Path, told: "dict[str, Any]") -> None:
    with_manifest(folder, json.dumps({**MANIFEST, "backend": "reference"}))


def strange_lines(folder: Path, told: "dict[str, Any]") -> None:
    """Lines that look like the protocol's; each would break a page if it were believed."""
    for line in (
        '{"event": "progress", "stage": ["x"], "done": 1, "total": 1}',
        '{"event": "progress", "stage": "x", "done": 1e999, "total": 1}',
        '{"event": "progress", "stage": "\\ud800", "done": 1, "total": 1}',
        '{"event": "progress", "stage": "x", "done": ' + "9" * 5000 + ', "total": 1}',
        '{"event": "artifact", "summary": {"kernels": "many"}}',
        '{"event": "artifact", "summary": {"kernels": NaN}}',
        '{"event": "failed", "code": "x", "detail": 1}',
        "[" * 100_000,
    ):
        print(line, flush=True)
    for number in range(5000):
        say(event="progress", stage=f"stage {number}", done=1, total=1)
    artifact(folder)


if sys.argv[1] == "describe":
    target = {"name": "host", "description": "this machine", "triple": "x86_64-linux-musl", "cores": 1}
    say(event="compiler", version="hostile", targets=[target])
elif sys.argv[1] == "prepare":  # the service's own, which nobody has taken over
    time.sleep(0.5)
    objects = Path(os.environ.get("XDG_CACHE_HOME", "/nowhere"), "pockengine", "objects")
    objects.mkdir()
    (objects / f"known-{time.time_ns()}").write_text("good")
elif sys.argv[1] == "build":
    place = Path(sys.argv[2])
    task = json.loads((place / "task.json").read_text())
    globals()[task["name"]](place, task["recipe"])
    say(event="artifact", summary={"kernels": 5})
