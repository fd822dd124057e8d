"""Options and arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else on stdout.")]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Which of the services that you signed in to; default: POCK_PROFILE, else 'default'.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow what was asked for until it is over.")]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait no longer than this; what runs goes on."),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]", help="Names, which may hold * and ?; default: all.", show_default=False),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="Show at most the newest N.")]
On = Annotated[
    str | None,
    typer.Option("--on", metavar="SELECTOR", help="Devices, such as 'pool=kitchen,ram>=2GiB' or 'pi-*'."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
