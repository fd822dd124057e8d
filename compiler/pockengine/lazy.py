"""Packages whose names are imported when somebody first asks for them.

So `import pockengine` brings in what compiling needs, and no more."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package (PEP 562): for each of its modules the names that the package has from it, with
    blanks between them. Type checkers read the same imports under `if TYPE_CHECKING`; `tests/structure` compares."""
    modules = {name: module for module, listed in names.items() for name in listed.split()}

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, found)
        return found

    return find
