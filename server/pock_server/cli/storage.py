"""Commands that look after what is stored: `scrub`, `gc`."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

import typer

from pock_server.blobs.collect import collect
from pock_server.blobs.scrub import Checked, check_all, count_stock
from pock_server.cli.bars import ByteBar, byte_bar
from pock_server.cli.common import AsJson, DataDir, migrated
from pock_server.runner.retention import Dropped, drop_old
from pock_server.services import Services


def scrub(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Hash every stored blob; quarantine those that are damaged or missing, and free those that are whole again.

    Exit status 1 if something is wrong.
    """
    services = migrated(data_dir)
    with services.database.read() as session:
        stock = count_stock(session)
    with byte_bar("hashing", stock.bytes) as bar:
        broken = asyncio.run(_scrub(services, bar))
    if as_json:
        faults = [{"digest": found.digest, "size": found.size, "reason": found.fault} for found in broken]
        print(json.dumps({"blobs": stock.blobs, "bytes": stock.bytes, "quarantined": faults}))
    else:
        for found in broken:
            print(f"{found.digest}  {found.size} bytes  {found.fault}")
        print(f"{stock.blobs} blobs, {stock.bytes} bytes: {len(broken) or 'none'} quarantined")
    raise typer.Exit(1 if broken else 0)


def gc(
    data_dir: DataDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop what is too old by the settings, and blobs that nothing uses and nobody wanted for POCK_GRACE_HOURS."""
    services = migrated(data_dir)
    dropped = Dropped() if dry_run else drop_old(services)
    found = collect(services, dry_run)
    if as_json:
        print(json.dumps({**asdict(found), "dropped": asdict(dropped), "dry_run": dry_run}))
        return
    if not dry_run:
        print(f"{dropped.artifacts} artifacts, {dropped.events} events and {dropped.steps} steps were too old")
    did = "would be removed" if dry_run else "removed"
    print(f"{found.claims} claims, {found.blobs} blobs and {found.parts} parts of uploads {did}: {found.bytes} bytes")


async def _scrub(services: Services, bar: ByteBar) -> list[Checked]:
    broken = []
    async for found in check_all(services):
        bar.advance(found.size)
        if found.fault is not None:
            broken.append(found)
    return broken
