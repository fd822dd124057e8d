"""The command `rotate-wrapping-key`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from pock_server.cli.common import AsJson, DataDir, command_line, migrated, refuse
from pock_server.signing import create_secret
from pock_server.trust.rewrap import check_opens, forget_old, rewrap


def rotate_wrapping_key(
    to_draft: Annotated[
        Path | None,
        typer.Option("--draft", help="Write the new key and the old ones to this file, and change nothing else."),
    ] = None,
    keep_old: Annotated[
        bool, typer.Option("--keep-old", help="Leave the old key in the file: other hosts have it still.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Encrypt the signing keys with another wrapping key, while the service goes on.

    A file that has several keys already, because of a draft or of an attempt that was cut off, gets no further one.
    """
    services = migrated(data_dir)
    wrapping = services.keys.wrapping
    with services.database.read() as session:
        if check_opens(session, wrapping) == 0:
            raise refuse("this service has no signing keys yet; start it once: pock-server serve")
    if to_draft is not None:
        _write_draft(to_draft, wrapping.with_new_key())
        print(json.dumps({"file": str(to_draft)}) if as_json else _DRAFTED.format(draft=to_draft, path=wrapping.path))
        return
    if wrapping.count() == 1:
        try:
            wrapping.add_key()
        except OSError as error:
            raise refuse(
                f"{wrapping.path} cannot be replaced ({error.strerror}): write a file to put there with --draft"
            ) from None
    with services.database.write(command_line()) as unit:
        keys = rewrap(unit, wrapping, services.clock.now())
    forgotten = False
    if not keep_old:
        try:
            with services.database.write(command_line()) as unit:
                forget_old(unit, wrapping)
            forgotten = True
        except OSError:
            pass  # the file is not this command's to write, which what is said below tells
    if as_json:
        print(json.dumps({"signing_keys": keys, "old_key_removed": forgotten}))
    else:
        print(f"{keys} signing keys are encrypted with the newest wrapping key")
        print("the old one is gone" if forgotten else _LEFT.format(path=wrapping.path))


_DRAFTED = "{draft}: put it in the place of {path} on every host, then run `pock-server rotate-wrapping-key --keep-old`"
_LEFT = "remove all lines but the first of {path}, on every host"


def _write_draft(path: Path, content: bytes) -> None:
    try:
        made = create_secret(path, content)
    except OSError as error:
        raise refuse(f"{path} cannot be written: {error.strerror}") from None
    if not made:
        raise refuse(f"{path} exists; name a new file")
