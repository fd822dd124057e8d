"""Python objects by name, `package.module:function`: only for callers who trust the name with their process."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from ..errors import RecipeError


def parts_of(text: object, where: str) -> tuple[str, str]:
    """The module's name and the function's. Raises RecipeError."""
    module, colon, function = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not all(part.isidentifier() for part in [*module.split("."), *function.split(".")]):
        raise RecipeError(f"{where} must name a function, as in 'package.module:function', not {text!r}")
    return module, function


def import_named(text: str, folder: Path, where: str, what: str) -> Any:
    """Import it from `folder` or an installed package. `where` says who asks, and `what` it is, as in `loss`. Raises
    RecipeError."""
    module, function = parts_of(text, where)
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        found: Any = importlib.import_module(module)
        for part in function.split("."):
            found = getattr(found, part)
    except ImportError as error:
        raise RecipeError(f"the {what} '{text}' cannot be imported: {error}") from None
    except AttributeError:
        raise RecipeError(f"the module '{module}' has no '{function}', which the {what} names") from None
    finally:
        sys.path.remove(entry)
    return found
