"""The command line that starts a program confined."""

import json
import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pock_server.sandbox import bubblewrap
from pock_server.sandbox.limits import Limits
from pock_server.sandbox.view import BUILD, CACHE, Place, make_view
from pock_server.settings import Settings

_HERE = Path(__file__).resolve().parent


class Mechanism(StrEnum):
    """How processes are confined."""

    BUBBLEWRAP = "bubblewrap"
    """By the program `bwrap`."""
    NAMESPACES = "namespaces"
    """By this service itself, with the kernel's namespaces."""
    OFF = "off"
    """Not at all."""


@dataclass(frozen=True)
class Den:
    """A folder of this machine that holds all that one child may change.

    build/  its own folder, /build to it            tmp/    its /tmp
    cache/  its compiled things, unless `cache`     empty/  where its view is mounted
    """

    folder: Path
    cache: Path | None = None
    shared: tuple[Place, ...] = ()
    trusted: bool = False
    """It works on nothing that a user sent, and keeps the service's own user, so that it can write what others read."""

    @property
    def build(self) -> Path:
        """The child's own folder."""
        return self.folder / "build"

    def places(self) -> tuple[Place, ...]:
        """Where the child finds what it may change."""
        cache = self.cache or self.folder / "cache"
        return (Place(str(self.build), BUILD, True), Place(str(cache), CACHE, True), *self.shared)

    def writable(self) -> tuple[Path, ...]:
        """The folders that a child fills."""
        return (self.build, self.folder / "tmp", self.cache or self.folder / "cache")


def prepare(den: Den, settings: Settings, mechanism: Mechanism) -> None:
    """Make the den's folders, and give all that the child may change to the user that it will be. Call it when the
    inputs lie in `build`, before anything ran there."""
    for path in (*den.writable(), den.folder / "empty"):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The way to what lies below /tmp, also before the child has become its user; nobody else comes to this folder.
    (den.folder / "tmp").chmod(0o711)
    uid = child_user(settings, den)
    if uid is None or mechanism is Mechanism.OFF:
        return
    for top in (den.build, den.folder / "tmp", den.folder / "cache"):
        if top.exists():
            for parent, folders, files in os.walk(top):
                for name in (parent, *(os.path.join(parent, item) for item in (*folders, *files))):
                    os.chown(name, uid, uid, follow_symlinks=False)
    if den.cache is not None:
        os.chown(den.cache, uid, uid, follow_symlinks=False)


def child_user(settings: Settings, den: Den) -> int | None:
    """The user that the child becomes; None: it keeps the service's own."""
    return settings.sandbox_uid if os.geteuid() == 0 and not den.trusted else None


def command_line(
    mechanism: Mechanism,
    settings: Settings,
    den: Den,
    limits: Limits,
    program: tuple[str, ...],
    hidden: tuple[str, ...] = (),
) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment that start `program` confined. With paths that should be `hidden`, it first
    says in a line what it is confined to."""
    view = make_view(settings, den.places())
    uid = child_user(settings, den)
    scratch, python = str(den.folder / "tmp"), [sys.executable, "-I", "-S"]
    order = {"limits": limits.to_dict(), "uid": uid, "umask": 0o022 if den.trusted else 0o077, "hidden": hidden}
    enter = [*python, str(_HERE / "enter.py"), json.dumps(order), *program]
    if mechanism is Mechanism.BUBBLEWRAP:
        return [*bubblewrap.command(view, scratch, uid is not None), *enter], view.environment
    mounts = {
        "parent": os.getpid(),
        "root": str(den.folder / "empty"),
        "scratch": scratch,
        "folders": view.folders(),
        "places": [(place.host, place.inside, place.writable) for place in view.places],
        "links": view.links,
        "drops_user": uid is not None,
    }
    return [*python, str(_HERE / "namespaces.py"), json.dumps(mounts), *enter], view.environment


def shown(path: Path, den: Den, mechanism: Mechanism) -> str:
    """What a path in the den's own folder is called by the child."""
    return str(path) if mechanism is Mechanism.OFF else str(Path(BUILD) / path.relative_to(den.build))
