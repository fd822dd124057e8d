"""The measures of the house: how long a function or a file may be, how full a folder, how a module begins.

`measure` reads a folder and says what is beyond a measure. What is exempt is exempt by a rule that stands here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

MOST_LINES_OF_A_FUNCTION = 60
MOST_PARAMETERS = 7
MOST_LINES_OF_A_FILE = 400
MOST_MODULES_OF_A_FOLDER = 16
_OPTION = re.compile(r"\btyper\.(Option|Argument)\(")
_ENDPOINTS = frozenset({"get", "post", "put", "patch", "delete", "head"})
_GENERATED = re.compile(r"\bGenerated from .* by `python -m [\w.]+`\.$")
_SENTENCE = re.compile(r"[.!?:](\s|$)")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Rule(Enum):
    """What is measured."""

    FUNCTION_LINES = f"a function has at most {MOST_LINES_OF_A_FUNCTION} lines"
    """From `def` to its last line. Exempt: a migration's `upgrade` and `downgrade`, which are lists of tables; what was
    released is not rewritten."""
    PARAMETERS = f"a function has at most {MOST_PARAMETERS} parameters"
    """`self` and `cls` are not counted. Exempt: commands, whose parameters are the options that a person types, and
    endpoints, whose parameters are the request. The fields of a dataclass are no parameters."""
    FILE_LINES = f"a Python file has at most {MOST_LINES_OF_A_FILE} lines"
    """All lines count, comments and empty ones as well. Exempt: what a program writes, as its first line says."""
    FOLDER = f"a folder has at most {MOST_MODULES_OF_A_FOLDER} modules"
    """`__init__.py` is not counted. Exempt: lists of equals, which the test names with a reason each."""
    DOCSTRING = "a module begins with a docstring whose first line has the end of a sentence"
    """Whoever opens it reads there what it is."""


@dataclass(frozen=True)
class Finding:
    """One thing beyond a measure. `where` is its name, which outlives a move of its file; `detail` says more."""

    rule: Rule
    where: str
    detail: str


def measure(root: Path, folder: str) -> Iterator[Finding]:
    """What is beyond the measures below `root / folder`."""
    paths = sorted((root / folder).rglob("*.py"))
    for path in paths:
        yield from read(path.read_text(), path.relative_to(root).as_posix())
    for place in sorted({path.parent for path in paths}):
        modules = sum(1 for path in place.glob("*.py") if path.name != "__init__.py")
        if modules > MOST_MODULES_OF_A_FOLDER:
            name = place.relative_to(root).as_posix()
            yield Finding(Rule.FOLDER, name, f"{name} has {modules} modules")


def read(text: str, path: str) -> Iterator[Finding]:
    """What is beyond the measures in the text of one module; `path` is where it stands."""
    tree = ast.parse(text)
    home, _, file = path.partition("/")
    file = file.rpartition("/")[2]
    lines = len(text.splitlines())
    first = (ast.get_docstring(tree) or "").partition("\n")[0]
    if lines > MOST_LINES_OF_A_FILE and not _GENERATED.search(first):
        yield Finding(Rule.FILE_LINES, f"{home}: {file}", f"{path} has {lines} lines")
    if not _SENTENCE.search(first):
        yield Finding(Rule.DOCSTRING, f"{home}: {file}", f"{path} begins with {first!r}")
    for name, node in _functions(tree):
        where = f"{home}: {name}"
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MOST_LINES_OF_A_FUNCTION and not _migrates(node, path):
            yield Finding(Rule.FUNCTION_LINES, where, f"{path}: {name} has {length} lines")
        count = _parameters(node)
        if count > MOST_PARAMETERS and not _takes_options(node) and not _takes_a_request(node):
            yield Finding(Rule.PARAMETERS, where, f"{path}: {name} has {count} parameters")


def _functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its name, methods as `Class.method`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield within + node.name, node
        yield from _functions(node, f"{node.name}." if isinstance(node, ast.ClassDef) else within)


def _parameters(node: Function) -> int:
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return sum(1 for one in every if one is not None and one.arg not in ("self", "cls"))


def _migrates(node: Function, path: str) -> bool:
    return "/migrations/versions/" in path and node.name in ("upgrade", "downgrade")


def _takes_options(node: Function) -> bool:
    return bool(_OPTION.search(ast.unparse(node.args))) or "command" in _decorators(node)


def _takes_a_request(node: Function) -> bool:
    return not _ENDPOINTS.isdisjoint(_decorators(node))


def _decorators(node: Function) -> set[str]:
    """The last words of what decorates it: `get` for `@router.get(...)`."""
    called = [one.func for one in node.decorator_list if isinstance(one, ast.Call)]
    return {one.attr for one in called if isinstance(one, ast.Attribute)}
