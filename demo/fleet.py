"""The demo's devices: agents on this machine, one for its own processor and one for an emulated Raspberry Pi."""

import contextlib
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from demo.processes import StartError, program, running, tail
from pock_client import Client

PI = "raspberry-pi-4"
GPU = "jetson-orin-nano-gpu"
"""Its binary is built without it."""


@dataclass(frozen=True)
class Device:
    """One agent: the name people see, the target it runs, and its state folder."""

    name: str
    target: str
    folder: Path


def devices(folder: Path) -> tuple[Device, ...]:
    """This machine, and a Raspberry Pi 4 where qemu-user can stand in for it."""
    fleet = [Device("this-machine", "host", folder / "host")]
    if can_run_aarch64():
        fleet.append(Device(PI, PI, folder / PI))
    return tuple(fleet)


def can_run_aarch64() -> bool:
    """Whether aarch64 executables run here, natively or under qemu-user."""
    emulators = ("qemu-aarch64-static", "qemu-aarch64")
    return platform.machine() in ("aarch64", "arm64") or any(shutil.which(name) for name in emulators)


def enroll(device: Device, url: str, client: Client) -> str:
    """Enrol the device with a one-time token; returns its id. StartError holds what the agent said."""
    token = client.enrolment_tokens.create(name=device.name).token
    command = [program("pock-agent"), "enroll", url, token, "--name", device.name]
    command += ["--target", device.target, "--state-dir", str(device.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartError(f"{device.name} could not enrol: {done.stderr.strip()}")
    return client.devices.find(device.name).id


@contextlib.contextmanager
def agents_running(fleet: tuple[Device, ...]) -> Iterator[None]:
    """Every agent at work for the duration of the block, its log beside its state folder."""
    with contextlib.ExitStack() as stack:
        for device in fleet:
            command = [program("pock-agent"), "run", "--state-dir", str(device.folder)]
            stack.enter_context(running(command, log_of(device)))
        yield


def log_of(device: Device) -> Path:
    """Where the agent of `device` logs."""
    return device.folder.with_name(f"{device.folder.name}.log")


def last_words(device: Device) -> str:
    """The end of the agent's log, for an error message."""
    return tail(log_of(device))
