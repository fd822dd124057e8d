"""What a person calls a build or a run, and which ones that are: a name, a glob, an id, or its end."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, TypeVar

from .. import Client
from ..errors import ServiceError
from .faults import Refused

_MOST = 10_000
"""How many of a list are looked through, newest first."""
_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_VERSION = re.compile(r"[:@]")
"""In `NAME:v3`, `NAME:TAG`, `NAME@sha256:…`, which the service understands; each means one build."""
_END_OF_ID = re.compile(r"[0-9a-f]{6,12}")

Thing = TypeVar("Thing")
Names = Callable[[Any], Sequence[str]]


class Kind(StrEnum):
    """What has a log and can be cancelled."""

    BUILD = "build"
    """The making of an artifact."""
    RUN = "run"
    """Work of a device."""


def is_id(word: str) -> bool:
    """Whether it is the whole id of something."""
    return _ID.fullmatch(word) is not None


def looks_like_id(word: str) -> bool:
    """Whether it is an id, or could be the end of one."""
    return is_id(word) or _END_OF_ID.fullmatch(word) is not None


def fits(word: str, thing: Any, names: Names) -> bool:
    """Whether the word is the thing's id, its end, one of its names, or a glob of one."""
    if word == thing.id or (_END_OF_ID.fullmatch(word) and thing.id.replace("-", "").endswith(word)):
        return True
    return any(word == name or fnmatchcase(name, word) for name in names(thing))


def chosen(things: Iterable[Thing], words: Sequence[str] | None, names: Names, limit: int) -> list[Thing]:
    """The first of the things that a word fits, or of all without words."""
    return list(islice((one for one in things if not words or any(fits(word, one, names) for word in words)), limit))


def newest(things: Iterable[Thing], key: Callable[[Thing], Hashable]) -> list[Thing]:
    """Of a list with the newest first, the first of each key."""
    found: dict[Hashable, Thing] = {}
    for thing in things:
        found.setdefault(key(thing), thing)
    return list(found.values())


def names_of_build(build: Any) -> tuple[str, ...]:
    """What a build is called: by its own name, and by its model's."""
    return build.name, build.model_name


def names_of_run(run: Any) -> tuple[str, ...]:
    """What a run is called: as the build that it is of, and as that one's model, where the service tells them."""
    return tuple(one.name for one in (run.build, run.model) if one is not None)


def find_builds(client: Client, words: Sequence[str], state: str | None = None) -> list[Any]:
    """The builds that the words mean, in the words' order. A name is the build's or its model's, and means the newest
    one for each target; with a `state`, of those that are in it. Refused where a word means none."""
    filters = {} if state is None else {"state": state}
    found: list[Any] = []
    listed: list[Any] | None = None
    for word in words:
        if is_id(word) or _VERSION.search(word):
            meant = [client.builds.get(word.lower()) if is_id(word) else client.builds.find(word)]
            if state is not None and meant[0].state != state:
                raise Refused(f"the build {word} is {meant[0].state}")
        else:
            listed = listed if listed is not None else list(islice(client.builds.list(**filters), _MOST))
            fitting = (one for one in listed if fits(word, one, names_of_build))
            meant = newest(fitting, lambda one: (one.name, one.target))
        if not meant:
            what = "build" if state is None else f"{state} build"
            raise Refused(f"no {what} is called '{word}'; `builds` lists all")
        found += meant
    return newest(found, lambda one: one.id)


def find_runs(client: Client, words: Sequence[str]) -> list[Any]:
    """The runs that the words mean, in the words' order: a name is that of a build or model, and means the newest run
    of each build on each device. Refused where a word means none."""
    found: list[Any] = []
    listed: list[Any] | None = None
    for word in words:
        if is_id(word):
            meant = [client.runs.get(word.lower())]
        else:
            listed = listed if listed is not None else list(islice(client.runs.list(), _MOST))
            fitting = (one for one in listed if fits(word, one, names_of_run))
            meant = newest(fitting, lambda one: (names_of_run(one)[:1] or one.build_id, one.target, one.device_id))
        if not meant:
            raise Refused(f"no run is called '{word}'; `runs` lists all")
        found += meant
    return newest(found, lambda one: one.id)


def find_build_or_run(client: Client, word: str) -> tuple[Kind, Any]:
    """The one of this id or its end; or else the newest build of this name."""
    try:
        return Kind.BUILD, find_builds(client, [word])[0]
    except ServiceError as error:
        if error.status != 404:
            raise
    except Refused:
        if _END_OF_ID.fullmatch(word) is None:
            raise
    return Kind.RUN, find_runs(client, [word])[0]
