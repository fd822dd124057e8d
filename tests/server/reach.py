"""Which tests speak to the API alone, so that they can run against a service in other processes.

A test reaches into the process if it, or what it calls of the tests' own functions and of its module's classes, names
the clock, the services or how a build ends; or if a fixture of it patches the process, starts it with other settings or
reads its log. Other reasons are marks: `@pytest.mark.in_process("why")`.
"""

import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import pytest

_INNARDS = {
    "clock": "moves the clock",
    "services": "reaches into the process",
    "finish_build": "says how a build ends",
    "environment": "runs commands on the server's folder",
    "app": "reaches into the process",
}
_FIXTURES = {
    "start_server": "starts a server with other settings",
    "databases": "makes databases",
    "store_options": "starts a server with other settings",
    "monkeypatch": "patches the process",
    "caplog": "reads the process's log",
    "capfd": "reads the process's log",
    "capsys": "reads the process's log",
    "engine_name": "is about an engine",
    "postgres": "is about an engine",
    "s3": "is about a store",
}
_SERVERS = {"server", "shared"}
"""Those of conftest.py are the deployment's where a test runs against it."""


def why_in_process(metafunc: pytest.Metafunc) -> str | None:
    """Why a test cannot run against other processes; None if it can."""
    mark = metafunc.definition.get_closest_marker("in_process")
    if mark:
        return str(mark.args[0])
    waiting = [(metafunc.function, set(inspect.signature(metafunc.function).parameters))]
    seen: set[str] = set()
    while waiting:
        function, names = waiting.pop()
        if reason := _innards(function):
            return reason
        for name in names - seen:
            seen.add(name)
            if name in _FIXTURES:
                return _FIXTURES[name]
            definitions: Any = metafunc._arg2fixturedefs.get(name)
            home = definitions[-1].func.__module__ if definitions else ""
            if home.startswith("tests.") and not (name in _SERVERS and home == "tests.server.conftest"):
                waiting.append((definitions[-1].func, set(definitions[-1].argnames)))
    return None


def _innards(function: Callable[..., Any]) -> str | None:
    """The first of the forbidden names in a function, or in what it calls of the tests by name."""
    waiting, seen = [function], set()
    while waiting:
        one = inspect.unwrap(waiting.pop())
        if one in seen or not isinstance(one, FunctionType):
            continue
        seen.add(one)
        for name in _names(one.__code__):
            if name in _INNARDS:
                return _INNARDS[name]
            waiting += _own(one, one.__globals__.get(name))
    return None


def _own(caller: FunctionType, found: object) -> list[Callable[..., Any]]:
    """What `found`, which `caller` names, runs of the tests' code: itself, or a class' methods that stand beside it."""
    if isinstance(found, FunctionType) and found.__module__.startswith("tests."):
        return [found]
    if isinstance(found, type) and found.__module__ == caller.__module__:
        return [method for method in vars(found).values() if isinstance(method, FunctionType)]
    return []


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
