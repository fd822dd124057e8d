"""Reads a recipe that somebody wrote as YAML, in a time that grows with its length alone."""

from typing import Any

import yaml

from pock_server.http.fields import canonical_json, check_json
from pock_server.http.problems import Failure, Problem

MAX_CHARACTERS = 100_000
_MAX_DEPTH = 16
_MAX_SCALAR = 4_000


def read_recipe(recipe: dict[str, Any] | str) -> dict[str, Any]:
    """The recipe as an object; a 422 `Problem` if it is text that is not a YAML mapping. The worker checks the rest.

    Call it outside of any transaction: a long text takes a while.
    """
    if isinstance(recipe, dict):
        return recipe
    try:
        _check_events(recipe)
        found = yaml.load(recipe, yaml.CSafeLoader)
        if not isinstance(found, dict):
            raise ValueError("it is not a mapping")
        check_json(found)
        if not all(isinstance(key, str) for key in found):
            raise ValueError("its keys must be texts")
        canonical_json(found)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise Problem(Failure.BAD_RECIPE, f"The recipe cannot be read: {' '.join(str(error).split())}.") from None
    return found


def _check_events(text: str) -> None:
    """Raise ValueError for what could grow beyond its text (aliases), nest without end, or be a number of any length.

    libyaml reads the text in linear time; PyYAML's own scanner and constructors, which come after, do not.
    """
    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"it uses the alias *{event.anchor}; write the value again")
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > _MAX_SCALAR:
            raise ValueError(f"it has a value of more than {_MAX_SCALAR} characters")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {_MAX_DEPTH} levels")
