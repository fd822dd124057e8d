"""What a person may call a thing of the service: an id, a name, or the thing itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Protocol

from pock_client.errors import PockClientError

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_RECIPE_BYTES = 1 << 20


class Identified(Protocol):
    """A thing with an id."""

    @property
    def id(self) -> str:
        """UUIDv7."""


Reference = str | Identified
"""An id, a name, or the thing itself."""


def known_id(reference: Reference) -> str | None:
    """The id that a reference is or has; None for a name."""
    if not isinstance(reference, str):
        return reference.id
    return reference if _ID.fullmatch(reference) else None


LOCAL = "local:"
"""Before the name of data that stays on devices."""


def local_name(reference: Reference) -> str | None:
    """The name of data that stays on a device, if that is what is meant."""
    if not isinstance(reference, str) or not reference.startswith(LOCAL):
        return None
    return reference.removeprefix(LOCAL)


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 in lower-case hexadecimal."""
    return _DIGEST.fullmatch(text) is not None


def recipe_text(recipe: str | dict[str, Any] | Path) -> str | dict[str, Any]:
    """A recipe as the service takes it: an object, or YAML text. Raises PockClientError if a file is none."""
    if not isinstance(recipe, Path):
        return recipe
    try:
        with recipe.open("rb") as stream:
            return stream.read(_MOST_RECIPE_BYTES).decode()
    except OSError as error:
        raise PockClientError(f"{recipe} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PockClientError(f"{recipe} is no text: a recipe is written in YAML") from error
