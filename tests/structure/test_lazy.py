"""`import pockengine` imports what compiling needs; the rest comes when it is asked for, under the same names."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import pockengine

ROOT = Path(pockengine.__file__).parent
LAZY = {path.parent: path.read_text() for path in ROOT.rglob("__init__.py") if "lazily(" in path.read_text()}


def _listed(text: str) -> set[tuple[str, str]]:
    """The (module, name) pairs that the call of `lazily` lists."""
    (call,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return {(module, name) for module, names in ast.literal_eval(call.args[1]).items() for name in names.split()}


def _declared(text: str, package: str) -> set[tuple[str, str]]:
    """Those that type checkers read."""
    prefix = f"{package}."
    (checked,) = (node for node in ast.parse(text).body if isinstance(node, ast.If))
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    return {(str(node.module).removeprefix(prefix), alias.name) for node in imports for alias in node.names}


@pytest.mark.parametrize("folder", LAZY, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_lazy_names_are_those_that_are_declared(folder: Path) -> None:
    listed, package = _listed(LAZY[folder]), ".".join([ROOT.name, *folder.relative_to(ROOT).parts])
    assert listed and listed == _declared(LAZY[folder], package)
    for module, name in listed:
        assert getattr(import_module(package), name) is getattr(import_module(f"{package}.{module}"), name)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = import_module(package).nothing


SEEN = """
import sys, pockengine
late = (
    "search.", "verify.", "frontends.torch.", "frontends.jax.", "frontends.keras.", "codegen.onnx.", "codegen.c.",
    "artifact.session", "artifact.training", "artifact.run", "artifact.export",
)
print(*(name for name in sys.modules if name.startswith(tuple(f"pockengine.{one}" for one in late))))
from pockengine.search import Space
import pockengine.search.job, pockengine.verify.files
print(pockengine.search.__name__, pockengine.verify.__name__, callable(pockengine.search), callable(pockengine.verify))
"""


def test_importing_brings_in_neither_search_nor_comparison() -> None:
    said = subprocess.run([sys.executable, "-c", SEEN], check=True, capture_output=True, text=True).stdout.splitlines()
    assert said[0].split() == ["pockengine.search.job", "pockengine.search.job.api", "pockengine.verify.api"]
    assert said[1] == "search verify True True"
