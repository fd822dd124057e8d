"""Runs the services of docker-compose.yml without a container engine, as they are written there.

bubblewrap stands in for the engine: each container has a read-only root, its own /tmp, its volumes and secrets at their
places, its user, no capabilities, its own processes. Two things differ. A container's own network is a loopback address
of its own, so that every port stays what it is and /etc/hosts says the names; and programs come from this machine, not
from images, so what an image's entry point would do is done by `prepare`.
"""

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.dockerfile import ROOT, command_of, environment, read_dockerfile
from tests.deploy.seccomp import compile_profile
from tests.server.databases import find_postgres

STAGES = read_dockerfile((ROOT / "docker" / "Dockerfile").read_text())
_PROGRAMS = [Path(sys.executable).parent, find_postgres() or "", ROOT / "docker", "/usr/local/bin", "/usr/bin", "/bin"]
_USERS = (("root", 0, "/root"), ("pock", 10001, "/nonexistent"), ("postgres", 999, "/var/lib/postgresql"))


def read_compose(**variables: str) -> dict[str, Any]:
    """The file as docker-compose itself reads it: checked, with variables and anchors put in."""
    done = subprocess.run(
        ["docker-compose", "-f", str(ROOT / "docker-compose.yml"), "config"],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


_OWN_PROCESSES = ["unshare", "--user", "--map-root-user", "--pid", "--mount-proc", "--fork", "--kill-child"]


@dataclass
class Container:
    """One running copy of a service."""

    name: str
    address: str
    log: Path
    process: "subprocess.Popen[bytes]"
    init: int
    """Process id, out here, of the first process in there: with it all others end; 0 if it had ended at once."""

    def said(self) -> str:
        """What it wrote to stdout and stderr."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """End all its processes at once."""
        os.kill(self.init, signal.SIGKILL)
        self.process.wait(timeout=30)

    def stop(self, how: signal.Signals, seconds: float) -> int:
        """Ask it to end, as an engine does; its exit status. Raises TimeoutExpired where the engine would kill it."""
        if self.process.poll() is None:
            for child in children(self.init):
                os.kill(child, how)
        return self.process.wait(timeout=seconds)


@dataclass
class Machine:
    """Where the services run: their volumes, secrets and addresses lie in `folder`."""

    compose: dict[str, Any]
    folder: Path
    secrets: Path
    variables: dict[str, dict[str, str]] = field(default_factory=dict)
    """Of a service, what is other than the file says."""
    binds: dict[str, dict[str, Path]] = field(default_factory=dict)
    """Of a service, folders of this machine by their place in the container."""
    running: list[Container] = field(default_factory=list)

    def __post_init__(self) -> None:
        block = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}"
        self.addresses: dict[str, list[str]] = {}
        number = 0
        for name, service in self.compose["services"].items():
            copies = service.get("deploy", {}).get("replicas", 1)
            self.addresses[name] = [f"{block}.{number + copy + 1}" for copy in range(copies)]
            number += copies
        hosts = ["127.0.0.1 localhost"]
        hosts += [f"{address} {name}" for name, found in self.addresses.items() for address in found]
        (self.folder / "hosts").write_text("\n".join(hosts) + "\n")
        (self.folder / "passwd").write_text(
            "".join(f"{name}:x:{uid}:{uid}::{home}:/bin/sh\n" for name, uid, home in _USERS)
        )

    def service(self, name: str) -> dict[str, Any]:
        """What the file says of a service."""
        found: dict[str, Any] = self.compose["services"][name]
        return found

    def image(self, name: str) -> str | None:
        """The stage of our Dockerfile that a service is, or None."""
        found = re.fullmatch(r"pockengine/(\w+):.*", self.service(name)["image"])
        return found[1] if found else None

    def command(self, name: str, address: str) -> list[str]:
        """The service's own command; only the address that it listens on becomes this container's."""
        service = self.service(name)
        image = self.image(name)
        own = command_of(STAGES[image].all("CMD")[0]) if image else []
        words = [*service.get("entrypoint", []), *(service.get("command") or own)]
        return [str(word).replace("0.0.0.0", address) for word in words]

    def environment(self, name: str, address: str = "0.0.0.0") -> dict[str, str]:
        """The image's variables, the file's, and those of the test; who listens, does so on this address."""
        image = self.image(name)
        built = environment(STAGES, image) if image else {}
        asked = {key: str(value) for key, value in self.service(name).get("environment", {}).items()}
        ours = {"PATH": ":".join(map(str, _PROGRAMS)), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        found = {**built, **asked, **self.variables.get(name, {}), **ours}
        return {key: address if value == "0.0.0.0" else value for key, value in found.items()}

    def walls(self, name: str) -> list[str]:
        """bubblewrap's arguments: what the container sees and may change."""
        service = self.service(name)
        user, _, group = service.get("user", "10001:10001").partition(":")
        arguments = ["--unshare-user", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]
        arguments += ["--uid", user, "--gid", group, "--cap-drop", "ALL", "--hostname", name]
        arguments += ["--tmpfs", "/", *_system(), "--dev", "/dev"]
        arguments += ["--bind", "/proc", "/proc"] if self._is_open(name) else ["--unshare-pid", "--proc", "/proc"]
        for name in ("hosts", "passwd"):
            arguments += ["--ro-bind", str(self.folder / name), f"/etc/{name}"]
        for place in service.get("tmpfs", []):
            arguments += ["--tmpfs", place.partition(":")[0]]
        arguments += ["--tmpfs", "/run/secrets"]
        for secret in service.get("secrets", []):
            arguments += ["--ro-bind", str(self.secrets / secret["source"]), f"/run/secrets/{secret['source']}"]
        for volume in service.get("volumes", []):
            source, place, mode = volume.split(":")
            if not source.startswith("/"):
                source = str(self.volume(source))
            arguments += ["--ro-bind" if mode == "ro" else "--bind", source, place]
        for place, folder in self.binds.get(name, {}).items():
            arguments += ["--bind", str(folder), place]
        arguments += ["--ro-bind", str(ROOT), str(ROOT)]
        return [*arguments, *(["--remount-ro", "/"] if service.get("read_only") else [])]

    def volume(self, name: str) -> Path:
        """The folder that is a named volume."""
        folder = self.folder / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def start(self, name: str, copy: int = 0) -> Container:
        """Start a service's copy; returns as soon as its processes are there."""
        address = self.addresses[name][copy]
        return self._launch(name, address, self.command(name, address), f"{name}-{copy}.log")

    def execute(self, name: str, *command: str) -> str:
        """What `docker-compose run SERVICE COMMAND` prints."""
        container = self._launch(name, self.addresses[name][0], list(command), f"{name}-run.log", fresh=True)
        status = container.process.wait(timeout=120)
        assert status == 0, container.said()
        return container.said()

    def healthy(self, container: Container, service: str) -> bool:
        """Whether the service's own health check says so, run as an engine runs it: in the container."""
        check = self.service(service).get("healthcheck", {}).get("test")
        if check is None:
            image = self.image(service)
            assert image is not None
            check = ["CMD", *command_of(STAGES[image].all("HEALTHCHECK")[0])]
        words = ["/bin/sh", "-c", check[1]] if check[0] == "CMD-SHELL" else check[1:]
        words = [re.sub(r"\b(127\.0\.0\.1|0\.0\.0\.0)\b", container.address, word) for word in words]
        done = subprocess.run(
            ["bwrap", *self.walls(service), *words], env=self.environment(service), capture_output=True, timeout=30
        )
        return done.returncode == 0

    def _launch(self, name: str, address: str, words: list[str], log: str, fresh: bool = False) -> Container:
        rules = self._seccomp(name)
        around = _OWN_PROCESSES if self._is_open(name) else []
        path = self.folder / log
        with path.open("wb" if fresh else "ab") as output:
            process = subprocess.Popen(
                [*around, "bwrap", *self.walls(name), "--seccomp", str(rules), *words],
                env=self.environment(name, address),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[rules],
                cwd="/",
            )
        os.close(rules)
        begun: list[int] = []
        while not begun and process.poll() is None:
            begun = children(process.pid)
        container = Container(name, address, path, process, begun[0] if begun else 0)
        self.running.append(container)
        return container

    def _is_open(self, name: str) -> bool:
        """Whether its processes see all of their /proc.

        Like engines, bubblewrap covers parts of a new one, and the kernel lets nobody in there mount another one.
        """
        return "systempaths=unconfined" in self.service(name)["security_opt"]

    def _seccomp(self, name: str) -> int:
        """A file with the service's filter of system calls; where it names none, ours stands in for the engine's."""
        named = [option.partition("=")[2] for option in self.service(name)["security_opt"] if "seccomp=" in option]
        rules = os.memfd_create("seccomp", 0)
        os.write(rules, compile_profile(ROOT / (named or ["docker/seccomp-worker.json"])[0]))
        os.lseek(rules, 0, os.SEEK_SET)
        return rules

    def end(self) -> None:
        """End whatever still runs."""
        for container in self.running:
            if container.process.poll() is None:
                container.process.kill()
                container.process.wait()


def children(process: int) -> list[int]:
    """The processes that one has started, the first one first."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _system() -> list[str]:
    """bubblewrap's arguments for this machine's programs; where containers have something of their own, nothing is."""
    arguments: list[str] = []
    for path in sorted(Path("/").iterdir()):
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir() and path.name not in ("dev", "proc", "sys", "tmp", "run", "var", "data", "config"):
            arguments += ["--ro-bind", str(path), str(path)]
    return arguments


def wait_for(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Returns when the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.1)


def make_secrets(folder: Path) -> Path:
    """Secrets, as people make them; in these containers our own user stands for theirs, so it owns the files."""
    subprocess.run([ROOT / "docker" / "make-secrets", folder / "secrets"], check=True)
    for path in (folder / "secrets").iterdir():
        os.chown(path, os.geteuid(), os.getegid())
    return folder / "secrets"
