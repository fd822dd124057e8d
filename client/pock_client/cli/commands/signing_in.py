"""`login`, `logout`, `whoami`: which service is spoken to, and as whom."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ... import Client
from ...credentials import address, checked, chosen_profile, find, forget, load, path, save
from ..console import note, plain, say, show_json, show_pairs
from ..faults import Refused
from ..options import Json, Profile
from ..session import connected

_MOST_CHARACTERS = 4096


def login(
    url: Annotated[str, typer.Argument(metavar="URL", help="The service's address, such as https://pock.example.com.")],
    key: Annotated[
        str | None, typer.Option("--key", metavar="-", help="'-' reads the key from stdin, which a pipe needs not say.")
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option("--key-file", metavar="FILE", help="Read the key from a file's first line.")
    ] = None,
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Sign in to a service with an API key, which is asked for, tried and kept for the other commands.

    An administrator of the service makes keys, on its page or with `pock-server create-key`."""
    if key not in (None, "-"):
        raise typer.BadParameter(
            "every user of this machine can see what stands in a command; say --key - or --key-file FILE",
            param_hint="--key",
        )
    credentials = checked(address(url), _read_key(key_file, from_stdin=key == "-"))
    with Client(credentials.url, credentials.key) as client:
        me = client.me()
    name = chosen_profile(profile)
    save(name, credentials)
    if json:
        show_json({"profile": name, "url": credentials.url, **plain(me)})
        return
    say(f"signed in to {credentials.url} as {me.name}, workspace {me.workspace.name}")
    note(f"the key is kept in {path()} and works until {me.expires_at:%Y-%m-%d}")


def logout(
    profile: Profile = None,
    json: Json = False,
) -> None:
    """Forget the key of a service; the service goes on to take it until it expires or is revoked there."""
    name = chosen_profile(profile)
    known = forget(name)
    if json:
        show_json({"profile": name, "forgotten": known})
    elif known:
        say(f"forgot the key of the profile '{name}'")
    else:
        others = ", ".join(sorted(load()))
        raise Refused(f"there is no profile '{name}'" + (f" (there are: {others})" if others else ""))


def whoami(profile: Profile = None, json: Json = False) -> None:
    """Say which service answers, as whom it knows you, and what you may do there."""
    found = find(profile=profile)
    with connected(profile) as client:
        me = client.me()
    if json:
        show_json({"url": found.url, **plain(me)})
        return
    role = f", {me.member.role}" if me.member else ""
    show_pairs(
        {
            "service": found.url,
            "you": f"{me.name}{role}",
            "workspace": me.workspace.name,
            "key": f"{me.key.name}, until {me.expires_at:%Y-%m-%d}",
            "may": ", ".join(str(scope) for scope in me.scopes),
        }
    )


def _read_key(file: Path | None, *, from_stdin: bool) -> str:
    """The key from where the person wants to give it."""
    if file is not None:
        with file.open() as stream:
            text = stream.readline(_MOST_CHARACTERS)
    elif from_stdin or not sys.stdin.isatty():
        text = sys.stdin.readline(_MOST_CHARACTERS)
    else:
        text = typer.prompt("API key", hide_input=True, err=True)
    key = text.strip()
    if not key:
        raise Refused("no key was given: paste it when asked, or say --key-file FILE")
    return key
