"""The commands of `pock-client` in one list, and its entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version as version_of
from typing import Annotated, Any

import typer
from typer.main import get_group

from .commands.benchmarking import bench
from .commands.building import build, builds
from .commands.campaigning import campaign_app
from .commands.comparing import compare
from .commands.devices import devices_app, enroll_token
from .commands.downloading import download
from .commands.federating import federate_app
from .commands.following import cancel, logs
from .commands.labelling import tag, untag
from .commands.pushing import datasets, models, push, recipes, targets
from .commands.rollouts import rollout_app
from .commands.running import run, runs
from .commands.scheduling import schedule_app
from .commands.searching import searches_app
from .commands.signing_in import login, logout, whoami
from .commands.tuning import tuning_app
from .commands.updating import agent_release_app
from .commands.webhooks import webhooks_app
from .faults import ServiceCommand

_COMMANDS: tuple[Callable[..., None], ...] = (
    login,
    logout,
    whoami,
    push,
    models,
    datasets,
    recipes,
    targets,
    build,
    builds,
    run,
    bench,
    runs,
    compare,
    logs,
    cancel,
    download,
    tag,
    untag,
    enroll_token,
)

app = typer.Typer(name="pock-client", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
for command in _COMMANDS:
    app.command(cls=ServiceCommand)(command)
app.add_typer(campaign_app)
app.add_typer(schedule_app)
app.add_typer(searches_app)
app.add_typer(devices_app)
app.add_typer(federate_app)
app.add_typer(agent_release_app)
app.add_typer(rollout_app)
app.add_typer(tuning_app)
app.add_typer(webhooks_app)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"pock-client {version_of('pock-client')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Push models, build and run training on the devices of a service, and compare what they measured."""


def all_commands() -> Mapping[str, Any]:
    """The commands by name, to be had in another program."""
    return get_group(app).commands


def main() -> None:
    """Entry point of `pock-client`."""
    app()
