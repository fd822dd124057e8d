"""Commands that make a backup and bring it back."""

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pock_server.backup.archive import BadArchive
from pock_server.backup.history import note_backup
from pock_server.backup.restoring import NotEmpty
from pock_server.backup.restoring import restore as bring_back
from pock_server.backup.saving import save
from pock_server.blobs.faults import StoreFailed
from pock_server.cli.bars import byte_bar
from pock_server.cli.common import AsJson, DataDir, command_line, migrated, refuse


def backup(
    target: Annotated[Path, typer.Argument(help="File to write; in a folder, it is named after the time.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write all rows, blobs and keys to one file, while the service goes on.

    The file holds the signing key and everybody's data: keep it as safe as those.
    """
    services = migrated(data_dir)
    if target.is_dir():
        target = target / f"pock-{services.clock.now():%Y%m%dT%H%M%SZ}.tar"
    if target.exists():
        raise refuse(f"{target} exists; choose another name")
    try:
        with byte_bar("saving", None) as bar:
            saved = asyncio.run(save(services, target, bar.total))
    except (OSError, StoreFailed) as error:
        raise refuse(f"the backup could not be written: {error}") from None
    with services.database.write(command_line()) as unit:
        note_backup(unit, target.name, saved.blobs, len(saved.absent), services.clock.now())
    if as_json:
        print(json.dumps({"file": str(target), **asdict(saved)}))
        return
    rows = sum(saved.rows.values())
    print(f"{target}: {rows} rows, {saved.blobs} blobs, {saved.bytes} bytes of blobs")
    for digest, reason in saved.absent.items():
        print(f"not in it, damaged: {digest}  {reason}")


def restore(
    source: Annotated[Path, typer.Argument(help="File that `backup` wrote.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Bring a backup back into an empty service, on whatever database and store it has."""
    services = migrated(data_dir)
    try:
        with byte_bar("restoring", source.stat().st_size) as bar:
            restored = asyncio.run(bring_back(services, source, bar.advance))
    except BadArchive as error:
        raise refuse(f"{source} is not restored: the archive {error}") from None
    except NotEmpty as error:
        raise refuse(f"{source} is not restored, because this service is not empty: {error}") from None
    except (OSError, StoreFailed) as error:
        raise refuse(f"{source} is not restored: {error}") from None
    if as_json:
        print(json.dumps(asdict(restored)))
        return
    rows = sum(restored.rows.values())
    print(
        f"{rows} rows, {restored.blobs} blobs, {restored.bytes} bytes of blobs restored; {restored.absent} damaged ones"
    )
