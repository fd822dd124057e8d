"""Backends are named in one place, and only theirs knows what a backend is made of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pockengine
from pockengine.codegen import backends
from pockengine.errors import ArtifactError, PockError

ROOT = Path(pockengine.__file__).parent
REGISTRY = ROOT / "codegen" / "backends.py"


def _outside(*rooms: str) -> Iterator[Path]:
    inside = {ROOT / "codegen" / room for room in rooms}
    return (path for path in ROOT.rglob("*.py") if inside.isdisjoint(path.parents) and path != REGISTRY)


def _imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, anywhere in it, by their full names."""
    package = ("pockengine", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("backend", backends.NAMES)
def test_only_the_registry_imports_a_backend(backend: str) -> None:
    name = f"pockengine.codegen.{backend}"
    found = {
        path.relative_to(ROOT).as_posix()
        for path in _outside(backend)
        if any(module == name or module.startswith(f"{name}.") for module in _imported(path))
    }
    assert found == set()


def test_every_backend_has_its_name() -> None:
    for name in backends.NAMES:
        assert backends.get(name).name == name
        assert backends.runner(name)


def test_an_unknown_backend_is_a_sentence() -> None:
    with pytest.raises(PockError, match="there is no backend 'metal' .known: c, cuda, emulated, opencl, reference."):
        backends.get("metal")
    with pytest.raises(
        ArtifactError, match="built by the backend 'metal', this version knows c, cuda, emulated, opencl, reference"
    ):
        backends.runner("metal")


@pytest.mark.parametrize(
    "word, where",
    [
        (r"\bzig", {"targets/processor.py"}),  # asked which instruction sets a processor has
        (r"\bCBackend\b", set()),
        (r"\bTasks\b", {"plan/program.py"}),  # declared beside the other ways to start a kernel
    ],
)
def test_what_only_programs_in_c_know_is_not_named_outside(word: str, where: set[str]) -> None:
    named = {path.relative_to(ROOT).as_posix() for path in _outside("c", "native") if re.search(word, path.read_text())}
    assert named == where
