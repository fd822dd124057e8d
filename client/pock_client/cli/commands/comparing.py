"""`compare`: what runs or benchmarks measured, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any

import typer

from ... import Client
from ...errors import ServiceError
from .. import completing
from ..benchmarks import show_beside
from ..comparison import compared, measured, show_comparison
from ..console import plain, show_json
from ..faults import Refused
from ..lookup import find_runs, fits, looks_like_id
from ..options import Json, Profile
from ..session import connected


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Runs, or builds by name or glob: the newest run of each, on each device; or ids of benchmarks.",
            autocompletion=completing.builds,
        ),
    ],
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Put runs side by side: accuracy, loss, times and memory, and how many times as much as the first. Benchmarks are
    compared by a rank test, each with the first."""
    with connected(profile) as client:
        benchmarks = _benchmarks(client, runs)
        if benchmarks:
            _compare(client, benchmarks, as_json=json)
            return
        found = [measured(client.runs.get(run.id)) for run in find_runs(client, runs)]
    if json:
        show_json({"runs": compared(found)})
    else:
        show_comparison(found)


_MOST = 1000


def _benchmarks(client: Client, words: Sequence[str]) -> list[Any]:
    """The benchmarks that the words are ids of; none where one is no benchmark's."""
    if not all(looks_like_id(word) for word in words):
        return []
    try:
        listed = list(islice(client.benchmarks.list(), _MOST))
    except ServiceError as error:
        if error.status != 404:  # a service that is older than benchmarks has none
            raise
        return []
    found = [next((one for one in listed if fits(word, one, lambda one: ())), None) for word in words]
    return [] if None in found else found


def _compare(client: Client, found: Sequence[Any], *, as_json: bool) -> None:
    """Each benchmark beside the first."""
    if len(found) < 2:
        raise Refused("one benchmark alone cannot be compared; name another one")
    first, *others = found
    beside = [client.benchmarks.compare(one.id, first.id) for one in others]
    if as_json:
        show_json({"benchmarks": plain(found), "comparisons": plain(beside)})
    else:
        show_beside(list(zip(others, beside, strict=True)))
