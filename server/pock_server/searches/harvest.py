"""Looks at what the child of a search left, and stores it: nobody here opens the page or the JSON."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pock_server.blobs.store import BlobStore
from pock_server.http.problems import Problem
from pock_server.recipes.text import MAX_CHARACTERS, read_recipe
from pock_server.runner.harvest import Left, NoArtifact, opened, put
from pock_server.searches.schemas import FoundOut
from pock_server.searches.service import Searched

_RECIPE = Left("recipe.yaml", "recipe", 4 * MAX_CHARACTERS)
_RESULT = Left("found.json", "result", 64 << 20)
_REPORT = Left("report.html", "report", 64 << 20)


def harvest_search(folder: Path, scratch: Path, summary: dict[str, Any], store: BlobStore) -> Searched:
    """Store what lies in the folder `out` of a child's, which has ended, through files in `scratch`. Raises
    `NoArtifact`, OSError."""
    try:
        told = FoundOut.model_validate(summary).model_dump()
    except ValidationError as error:
        raise NoArtifact(f"told something else than what it found ({error.errors()[0]['msg']})") from None
    with opened(folder, _RECIPE) as file:
        text, content = _recipe(file.read())
    stored = []
    for left in (_RESULT, _REPORT):
        with opened(folder, left) as file:
            stored.append(put(file, scratch, store))
    return Searched(text, content, stored[0], stored[1], told)


def _recipe(written: bytes) -> tuple[str, dict[str, Any]]:
    """The recipe's text, and what it says."""
    try:
        text = written.decode()
        if len(text) > MAX_CHARACTERS:
            raise NoArtifact(f"left a recipe of more than {MAX_CHARACTERS} characters")
        return text, read_recipe(text)
    except UnicodeDecodeError:
        raise NoArtifact("left a recipe that is no text") from None
    except Problem as problem:
        raise NoArtifact(f"left no recipe: {problem.detail}") from None
