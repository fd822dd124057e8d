"""`compare`: what runs measured, side by side."""

from __future__ import annotations

from typing import Annotated

import typer

from ..comparison import compared, measured, show_comparison
from ..console import show_json
from ..lookup import find_runs
from ..options import Json, Profile
from ..session import connected


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs; or builds by name or glob: the newest run of each, on each device."),
    ],
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Put runs side by side: accuracy, loss, times and memory, and how many times as much as the first."""
    with connected(profile) as client:
        found = [measured(client.runs.get(run.id)) for run in find_runs(client, runs)]
    if json:
        show_json({"runs": compared(found)})
    else:
        show_comparison(found)
