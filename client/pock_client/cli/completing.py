"""Names for the shell's completion, from the service: soon, or none at all."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from itertools import islice
from typing import Any

from .. import Client

_SECONDS = 1.5
_MOST = 200

Complete = Callable[[str], list[str]]


def names(of: Callable[[Client], Any], *attributes: str) -> Complete:
    """Completes a word with the names of what `of` lists. A service that does not answer soon completes nothing."""

    def complete(incomplete: str) -> list[str]:
        found: dict[str, None] = {}
        # Whatever goes wrong: a person who types a command wants no sentence about it now.
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Client(timeout=_SECONDS, patience=0.0) as client:
                for one in islice(of(client), _MOST):
                    for attribute in attributes or ("name",):
                        found.setdefault(str(getattr(one, attribute)))
        return [name for name in found if name.startswith(incomplete) and name.isprintable()]

    return complete


def any_of(*completes: Complete) -> Complete:
    """Completes a word with what each of these would."""

    def complete(incomplete: str) -> list[str]:
        return list(dict.fromkeys(name for one in completes for name in one(incomplete)))

    return complete


builds = names(lambda client: client.builds.list(), "name", "model_name")
models = names(lambda client: client.models.list())
datasets = names(lambda client: client.datasets.list())
recipes = names(lambda client: client.recipes.list())
devices = names(lambda client: client.devices.list())
pools = names(lambda client: client.devices.list(), "pool")
campaigns = names(lambda client: client.campaigns.list())
schedules = names(lambda client: client.schedules.list())
federations = names(lambda client: client.federations.list())
files = any_of(builds, models, datasets)
versioned = any_of(files, recipes)
