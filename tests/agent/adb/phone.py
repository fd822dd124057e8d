"""Phones for the fake adb: folders with what a phone with Snapdragon 8 Gen 3 shows of itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.agent.device.boards import lay_out

FAKE = Path(__file__).with_name("fake_adb.py")
EMULATOR = "qemu-aarch64-static"
SERIAL = "R5CX10ABCDE"
PROPERTIES = {
    "ro.product.manufacturer": "samsung",
    "ro.product.model": "SM-S928B",
    "ro.soc.model": "SM8650",
    "ro.build.version.release": "14",
    "ro.build.version.sdk": "34",
    "ro.product.cpu.abi": "arm64-v8a",
}
BATTERY = """Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  Dock powered: false
  Max charging current: 500000
  Max charging voltage: 5000000
  Charge counter: 3270000
  status: 2
  health: 2
  present: true
  level: 67
  scale: 100
  voltage: 3981
  temperature: 314
  technology: Li-ion
  Capacity level: -1
[EventLogBuffer]
08-11 18:34:14.721  Sending ACTION_BATTERY_CHANGED: level:72, temperature:345
  level: 12
"""
THERMAL = """IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 1
Thermal Status: 0
Cached temperatures:
\tTemperature{mValue=99.0, mType=0, mName=CPU0, mStatus=0}
HAL Ready: true
Current temperatures from HAL:
\tTemperature{mValue=48.2, mType=0, mName=CPU0, mStatus=0}
\tTemperature{mValue=31.4, mType=2, mName=BAT, mStatus=0}
\tTemperature{mValue=36.5, mType=3, mName=SKIN, mStatus=0}
\tTemperature{mValue=-99.9, mType=6, mName=POWER_AMPLIFIER, mStatus=0}
Current cooling devices from HAL:
\tCoolingDevice{mValue=0, mType=2, mName=thermal-cpufreq-0}
"""
PROGRAMS = {
    "getprop": 'while IFS="=" read -r name value; do\n[ "$name" = "$1" ] && echo "$value"\ndone <"$PHONE/properties"\n',
    "dumpsys": '[ "$1" = -t ] && shift 2\ncat "$PHONE/dumpsys/$1"\n',
}


class FakePhone:
    """A phone below `phones`, and what may happen to it."""

    def __init__(self, phones: Path, serial: str = SERIAL) -> None:
        self.phones, self.serial, self.folder = phones, serial, phones / serial
        self.tree = self.folder / "tree"
        self.rooms = self.tree / "data/local/tmp/pock"
        for path in (self.folder / "clients", self.tree / "data/local/tmp", self.tree / "system/bin"):
            path.mkdir(parents=True)
        lay_out("snapdragon-8-gen-3", self.tree)
        (self.tree / "sys/devices/system/cpu/present").write_text("0-7\n")
        (self.tree / "sys/devices/system/cpu/cpu7/cpufreq/cpuinfo_max_freq").write_text("3398400\n")
        self.tell(PROPERTIES)
        self.dump("battery", BATTERY)
        self.dump("thermalservice", THERMAL)
        for name, text in PROGRAMS.items():
            program = self.tree / "system/bin" / name
            program.write_text(f"#!/bin/sh\n{text}")
            program.chmod(0o755)
        (phones / "devices").touch()
        self.plug_in()

    @property
    def adb(self) -> str:
        """The program that reaches it."""
        program = self.phones / "adb"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {FAKE} {self.phones} "$@"\n')
        program.chmod(0o755)
        return str(program)

    def tell(self, properties: dict[str, str]) -> None:
        """Have `getprop` say these."""
        (self.tree / "properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def dump(self, service: str, text: str) -> None:
        """Have `dumpsys` say this of a service."""
        (self.tree / "dumpsys").mkdir(exist_ok=True)
        (self.tree / "dumpsys" / service).write_text(text)

    def plug_in(self, state: str = "device") -> None:
        """Attach it, in one of adb's states."""
        others = [line for line in self._devices() if not line.startswith(f"{self.serial}\t")]
        self._attach([*others, f"{self.serial}\t{state}"])

    def pull_cable(self) -> None:
        """Detach it: all connections are cut, and what runs on the phone goes on."""
        self._attach([line for line in self._devices() if not line.startswith(f"{self.serial}\t")])
        self.cut()

    def cut(self) -> None:
        """Cut all connections; the next one works again."""
        for client in (self.folder / "clients").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(client.name), signal.SIGKILL)
            client.unlink(missing_ok=True)

    def hang(self, *verbs: str) -> None:
        """Have these of adb's commands never end, until it is said anew."""
        (self.phones / "hang").write_text(" ".join(verbs))

    def left(self) -> list[str]:
        """Rooms of jobs on it."""
        return sorted(path.name for path in self.rooms.iterdir()) if self.rooms.exists() else []

    def calls(self) -> list[str]:
        """Commands that adb was asked for."""
        return (self.phones / "calls").read_text().split() if (self.phones / "calls").exists() else []

    def emulate(self) -> None:
        """Have it run executables for its own processor, by qemu."""
        emulator = shutil.which(EMULATOR)
        assert emulator is not None
        source = Path(__file__).with_name("emulator.c")
        command = [sys.executable, "-m", "ziglang", "cc", "-shared", "-fPIC", f'-DQEMU="{emulator}"', str(source)]
        subprocess.run([*command, "-o", str(self.folder / "emulator.so")], check=True, capture_output=True)

    def _devices(self) -> list[str]:
        return (self.phones / "devices").read_text().splitlines()

    def _attach(self, lines: list[str]) -> None:
        fresh = self.phones / "devices.new"
        fresh.write_text("".join(f"{line}\n" for line in lines))
        fresh.replace(self.phones / "devices")
