"""Addresses and keys of services, in a file that nobody but its owner can read: one entry for each profile.

The file is `$XDG_CONFIG_HOME/pock/credentials.toml`; `login` writes it. A key belongs to the address that it was saved
with and is given for no other.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pock_client.errors import CredentialsError

_DEFAULT_PROFILE = "default"
_MOST_BYTES = 1 << 20
_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_KEY = re.compile(r"[\x21-\x7e]{1,512}")
_ADDRESS = re.compile(r"https?://[\x21-\x7e]{1,2000}")
_HINT = "sign in with `pock-client login URL`, or set POCK_URL and POCK_KEY"


@dataclass(frozen=True)
class Credentials:
    """The address of a service, without a slash at its end, and a key of its."""

    url: str
    key: str = field(repr=False)


def find(url: str | None = None, key: str | None = None, profile: str | None = None) -> Credentials:
    """The first of: what is given; a profile that is given; POCK_URL and POCK_KEY; the profile POCK_PROFILE, else
    'default'. CredentialsError where that leaves no address or no key."""
    if profile is None:
        url = url or os.environ.get("POCK_URL") or None
        key = key or os.environ.get("POCK_KEY") or None
    if url and key:
        return checked(url, key)
    name = chosen_profile(profile)
    saved = load().get(name)
    if saved is None:
        missing = "key" if url else "address of a service"
        raise CredentialsError(
            f"there is no profile '{name}'; {_HINT}" if profile else f"no {missing} is known; {_HINT}"
        )
    if url and address(url) != saved.url:
        raise CredentialsError(f"no key is known for {url}: the profile '{name}' has one for {saved.url}; {_HINT}")
    return Credentials(saved.url, checked(saved.url, key).key if key else saved.key)


def chosen_profile(profile: str | None) -> str:
    """The profile that is meant: the one given, else POCK_PROFILE, else 'default'."""
    return profile or os.environ.get("POCK_PROFILE") or _DEFAULT_PROFILE


def checked(url: str, key: str) -> Credentials:
    """The two if they can be an address and a key, else CredentialsError; it does not repeat the key."""
    if not _KEY.fullmatch(key):
        raise CredentialsError("that is no key: a key begins with pk_ and has letters and digits only")
    return Credentials(address(url), key)


def address(url: str) -> str:
    """A service's address as it is kept. CredentialsError if it is none."""
    try:
        parts = urlsplit(url)
        fits = bool(_ADDRESS.fullmatch(url) and parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or parts.query or parts.fragment:
        raise CredentialsError(f"'{url}' is no address of a service; it looks like https://pock.example.com")
    if parts.username is not None:
        raise CredentialsError("an address has no user and password in it; the key says who you are")
    return url.rstrip("/")


def path() -> Path:
    """Where the file is, or would be."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(configured) if os.path.isabs(configured) else Path.home() / ".config"
    return home / "pock" / "credentials.toml"


def load() -> dict[str, Credentials]:
    """All profiles by name. CredentialsError if others can read the file, or it is not one of ours."""
    file = path()
    try:
        with file.open("rb") as stream:
            found = os.fstat(stream.fileno())
            _refuse_open_file(file, found)
            document = tomllib.loads(stream.read(_MOST_BYTES).decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CredentialsError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, not TOML
        raise CredentialsError(f"{file} is damaged: {error}; delete it and sign in again") from error
    return {name: _entry(file, name, entry) for name, entry in document.items()}


def save(profile: str, credentials: Credentials) -> None:
    """Keep them under this name, in place of what was there."""
    if not _PROFILE.fullmatch(profile):
        raise CredentialsError(f"'{profile}' is no name of a profile; it has letters, digits, '-', '_' and '.' only")
    _write({**load(), profile: credentials})


def forget(profile: str) -> bool:
    """Drop what is kept under this name; whether there was something."""
    entries = load()
    known = entries.pop(profile, None) is not None
    if known:
        _write(entries)
    return known


def _entry(file: Path, name: str, entry: object) -> Credentials:
    values = entry if isinstance(entry, dict) else {}
    url, key = values.get("url"), values.get("key")
    if not isinstance(url, str) or not isinstance(key, str):
        raise CredentialsError(f"{file} is damaged: '{name}' has no url and key; delete it and sign in again")
    return checked(url, key)


def _refuse_open_file(file: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_size > _MOST_BYTES:
        raise CredentialsError(f"{file} is not a file of credentials; move it away")
    if os.name == "posix" and found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CredentialsError(f"others can read the keys in {file}; say `chmod 600 {file}`")


def _write(entries: Mapping[str, Credentials]) -> None:
    """Replaces the file at once, so that it is there whole or as it was, and never readable by others."""
    file = path()
    text = "\n".join(
        f"[{json.dumps(name)}]\nurl = {json.dumps(entry.url)}\nkey = {json.dumps(entry.key)}\n"
        for name, entry in sorted(entries.items())
    )
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(new, file)
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink()
            raise
    except OSError as error:
        raise CredentialsError(f"{file} cannot be written: {error.strerror}") from error
