"""Checks of a phone on a cable, in the place of those of this machine."""

from __future__ import annotations

from collections.abc import Iterator

from pock_agent.care.finding import Finding, fail, ok, warn
from pock_agent.care.machine import LITTLE_DISK, Machine, check_disk, check_heat, check_memory, lacking_features
from pock_agent.place.adb.phone import Phone
from pock_agent.place.adb.readings import Readings
from pock_agent.settings import MIB

_UNCONFINED = (
    "a job runs as the phone's shell: it can reach the network, read what the shell can (photos among it), and "
    "outlives a pulled cable by up to a minute; its time, memory and files are limited"
)


def examine(phone: Phone, at: Machine) -> Iterator[Finding]:
    """Every check, one after the other; where the phone is away, only those of the computer."""
    yield check_disk(at)
    reason = phone.away()
    if reason is not None:
        yield fail("phone", f"{phone.name}: {reason}")
        return
    about, now = phone.about(), phone.readings()
    yield ok("phone", f"{about.maker} {about.model}, {about.chip or 'unknown chip'}, Android {about.android}")
    lacking = lacking_features(at.target, about.features)
    if lacking:
        yield fail("processor", lacking)
    else:
        yield ok("processor", f"{about.abi}, all that executables for {at.target} use")
    yield check_memory(now.free_bytes)
    yield _room(now.room_bytes)
    yield check_heat(phone.temperature(), None if now.status is None else now.status > 0)
    yield _battery(now)
    yield warn("sandbox", _UNCONFINED)


def _room(free: int | None) -> Finding:
    if free is None:
        return ok("storage", "the phone does not say how much is free")
    if free < LITTLE_DISK:
        return fail("storage", f"{free // MIB} MiB are free on the phone: make room")
    return ok("storage", f"{free // MIB} MiB are free on the phone")


def _battery(now: Readings) -> Finding:
    level = "" if now.level_percent is None else f", battery at {now.level_percent:.0f} %"
    if now.plugged is False:
        return warn("power", f"on battery{level}: plug it in for benchmarks")
    return ok("power", f"plugged in{level}" if now.plugged else "the phone does not tell")
