"""Chooses the place that an agent's jobs run in: this machine, or the phone that it was enrolled for."""

from __future__ import annotations

from dataclasses import dataclass

from pock_agent.errors import AgentError
from pock_agent.place.place import Place
from pock_agent.place.this_machine import ThisMachine


@dataclass(frozen=True)
class Wish:
    """What was said on the command line. `adb` is a phone's serial, "" for whichever there is, None for no phone;
    `adb_path` is the program."""

    adb: str | None = None
    adb_path: str | None = None


HERE = Wish()
"""Nothing was said."""


def serial_for(wish: Wish) -> str | None:
    """The phone to enrol, which has to be there; None for this machine."""
    if wish.adb is None:
        return None
    from pock_agent.place.adb.bridge import choose, find_program  # only those who have a phone pay for it

    return choose(find_program(wish.adb_path), wish.adb or None)


def place_for(wish: Wish, serial: str | None, owner: str) -> Place:
    """The place of a device that was enrolled for the phone `serial`, or for this machine with None.

    `owner` tells this agent's folders on a phone from others'. AgentError where something else was wished for.
    """
    if wish.adb is not None and serial is None:
        raise AgentError(
            "this state directory is enrolled for this machine, not for a phone; "
            "enrol the phone in another one: pock-agent enroll --adb URL TOKEN --state-dir D"
        )
    if wish.adb and wish.adb != serial:
        raise AgentError(f"this state directory is enrolled for the phone {serial}; {wish.adb} needs another one")
    if serial is None:
        return ThisMachine()
    from pock_agent.place.adb.bridge import Bridge, find_program
    from pock_agent.place.adb.phone import Phone

    return Phone(Bridge(find_program(wish.adb_path), serial), owner)
