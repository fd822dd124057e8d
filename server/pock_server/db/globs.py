"""Names as people write several of them: `*` stands for any characters, `?` for one; upper and lower case differ.

Each database has its own operator for this, so the pattern is given in both languages and the dialect takes one.
"""

import re
from typing import Any

from sqlalchemy import Boolean, ColumnElement, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

MAX_CHARACTERS = 200
"""Of a pattern: as many as a name may have."""


class _Matches(FunctionElement[bool]):
    """(column, pattern for GLOB, pattern for LIKE)."""

    type = Boolean()
    inherit_cache = True
    name = "matches"


@compiles(_Matches, "sqlite")
def _glob(element: _Matches, compiler: SQLCompiler, **options: Any) -> str:
    column, glob, _like = element.clauses
    return f"({compiler.process(column, **options)} GLOB {compiler.process(glob, **options)})"


@compiles(_Matches, "postgresql")
def _like(element: _Matches, compiler: SQLCompiler, **options: Any) -> str:
    column, _glob, like = element.clauses
    return f"({compiler.process(column, **options)} LIKE {compiler.process(like, **options)} ESCAPE '\\')"


def matches(column: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
    """That the text of the column is what the pattern stands for; a pattern without `*` and `?` is the text itself."""
    if "*" not in pattern and "?" not in pattern:
        return column == pattern
    whole = re.sub(r"\*+", "*", pattern)  # both databases try each star of a row in vain
    # GLOB knows sets in brackets, LIKE its own two signs; each stands for itself here.
    glob = whole.replace("[", "[[]")
    like = re.sub(r"([\\%_])", r"\\\1", whole).replace("*", "%").replace("?", "_")
    return _Matches(column, bindparam(None, glob), bindparam(None, like))
