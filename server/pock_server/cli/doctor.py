"""The command `doctor`."""

import json
import os
from dataclasses import asdict

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pock_server.cli.common import AsJson, DataDir, settings_for
from pock_server.doctor import Finding, Outcome, examine

_STYLES = {Outcome.OK: "green", Outcome.WARN: "yellow", Outcome.FAIL: "bold red"}


def doctor(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Look at settings, database, store and machine, change nothing, and say what to fix; exit status 1 if a part
    does not work."""
    found = list(examine(settings_for(data_dir), os.environ))
    broken = any(finding.outcome is Outcome.FAIL for finding in found)
    if as_json:
        print(json.dumps({"ok": not broken, "findings": [asdict(finding) for finding in found]}))
    else:
        _show(found)
    raise typer.Exit(1 if broken else 0)


def _show(found: list[Finding]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in found:
        style = _STYLES[finding.outcome]
        table.add_row(f"[{style}]{finding.outcome}[/]", finding.item, escape(finding.says))
    console = Console(highlight=False)
    console.print(table)
    counts = [f"{sum(f.outcome is outcome for f in found)} {outcome}" for outcome in Outcome]
    console.print(f"\n{', '.join(counts)}")
