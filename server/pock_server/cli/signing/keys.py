"""Commands that change the keys which sign work: `rotate-keys` and `trust …`."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy.exc import IntegrityError

from pock_server.cli.common import AsJson, DataDir, command_line, migrated, refuse
from pock_server.devices.trust import count_pinned, count_versions
from pock_server.runs.leases import release_device
from pock_server.services import Services
from pock_server.signing import create_key, key_id_of, read_key
from pock_server.trust.chain import LIFE_DAYS, Change, draft, latest
from pock_server.trust.documents import BadDocument, Trust, is_key, read, read_file, sign
from pock_server.trust.rotation import Rotated, put_in_force, rotate
from pock_server.trust.schemas import TrustDocument
from pock_server.trust.wrapping import CannotUnwrap

trust_app = typer.Typer(
    name="trust", no_args_is_help=True, help="Show trust documents, and sign them away from the service."
)

RootKeys = Annotated[list[Path] | None, typer.Option("--root-key", help="PEM file of a root key; may be given again.")]
Revoke = Annotated[
    list[str] | None, typer.Option("--revoke", help="Id of a stolen signing key: never used again, in no case.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
_MAX_DAYS = 3650


def rotate_keys(
    root_key: RootKeys = None,
    new_root: Annotated[
        list[Path] | None, typer.Option(help="Public key file of a root key that counts from now on; may be repeated.")
    ] = None,
    threshold: Annotated[int | None, typer.Option(min=1, help="Root keys that have to sign, with --new-root.")] = None,
    keep_signing_key: Annotated[
        bool, typer.Option("--keep-signing-key", help="Only renew the document, or change its root keys.")
    ] = False,
    days: Annotated[int, typer.Option(min=1, max=_MAX_DAYS, help="Life of the document.")] = LIFE_DAYS,
    revoke: Revoke = None,
    to_draft: Annotated[
        Path | None, typer.Option("--draft", help="Write the unsigned document to this file and change nothing else.")
    ] = None,
    yes: Yes = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a new signing key, sign the next trust document with the root key, and publish it."""
    services, stolen = migrated(data_dir), revoke or []
    if threshold is not None and not new_root:
        raise refuse("--threshold goes with --new-root")
    if to_draft is not None and stolen:
        raise refuse("a draft revokes nothing; give --revoke to `pock-server trust publish`")
    with _refusals():
        root_keys = tuple(_public_key(path) for path in new_root) if new_root else None
        change = Change(not keep_signing_key, root_keys, threshold, days)
        if to_draft is not None:
            _write_draft(services, change, to_draft, as_json)
            return
        signers = [read_key(path) for path in root_key or [_online_root(services)]]
        _confirm(stolen, yes)
        with services.database.write(command_line()) as unit:
            now = services.clock.now()
            done = rotate(unit, services.keys, change, signers, stolen, now)
            for device in done.revoked:
                release_device(unit, device, now)
    _tell(done, as_json)


@trust_app.command("show")
def show(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Say which keys are trusted until when, and what the devices know of that."""
    services = migrated(data_dir)
    with services.database.read() as session:
        trust = latest(session)
        pinned, versions = count_pinned(session), count_versions(session)
    if trust is None:
        raise refuse("this service has no keys yet; start it once: pock-server serve")
    account = {
        **_account(trust),
        "root_key_here": services.settings.effective_root_key_file.exists(),
        "devices": {str(version): count for version, count in sorted(versions.items())},
        "pinned": {str(key): count for key, count in pinned.items()},
    }
    ahead = sum(count for version, count in versions.items() if version > trust.version)
    if as_json:
        print(json.dumps({**account, "devices_ahead": ahead}))
        return
    for name, value in account.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        print(f"{name:14} {shown}")
    if ahead:
        print(
            f"{ahead} devices have a newer document than version {trust.version}: the database was restored from an "
            f"older backup. Rotate until the version is above {max(versions)}."
        )


@trust_app.command("new-root-key")
def new_root_key(
    file: Annotated[Path, typer.Argument(help="Where the private key goes; the public one goes to FILE.pub.")],
) -> None:
    """Make a root key. Needs no service: do it on the machine where the key is to stay."""
    if file.exists():
        raise refuse(f"{file} exists; a key is never overwritten")
    with _refusals():
        signer = create_key(file)
        public = file.with_name(file.name + ".pub")
        public.write_text(signer.public_key + "\n")
    print(f"{public}: key {signer.key_id}")


@trust_app.command("sign")
def sign_draft(
    file: Annotated[Path, typer.Argument(help="The draft; the signatures are added to it.")],
    root_key: RootKeys = None,
    as_json: AsJson = False,
) -> None:
    """Say what a draft would have devices trust, and sign it. Needs no service."""
    if not root_key:
        raise refuse("say which key signs: --root-key FILE")
    with _refusals():
        document = sign(_document(file), [read_key(path) for path in root_key])
        account = _account(read(document))
        file.write_text(document.model_dump_json(indent=1) + "\n")
    account["signed_by"] = [signature.key_id for signature in document.signatures]
    print(json.dumps(account) if as_json else "\n".join(f"{name:14} {value}" for name, value in account.items()))


@trust_app.command("publish")
def publish_draft(
    file: Annotated[Path, typer.Argument(help="The signed document.")],
    revoke: Revoke = None,
    yes: Yes = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Make a signed document the newest version."""
    services, stolen = migrated(data_dir), revoke or []
    with _refusals():
        document = _document(file)
        _confirm(stolen, yes)
        with services.database.write(command_line()) as unit:
            now = services.clock.now()
            done = put_in_force(unit, services.keys, document, stolen, now)
            for device in done.revoked:
                release_device(unit, device, now)
    _tell(done, as_json)


@contextmanager
def _refusals() -> Iterator[None]:
    """What is wrong with keys, files and documents becomes one sentence."""
    try:
        yield
    except IntegrityError:
        raise refuse("somebody else published this version at this moment; see `pock-server trust show`") from None
    except (BadDocument, CannotUnwrap, ValueError) as error:
        raise refuse(str(error)) from None
    except OSError as error:
        raise refuse(f"{error.filename}: {error.strerror}") from None


def _online_root(services: Services) -> Path:
    path = services.settings.effective_root_key_file
    if not path.exists():
        raise refuse(f"there is no root key {path}: give --root-key FILE, or write a document to sign with --draft")
    return path


def _write_draft(services: Services, change: Change, path: Path, as_json: bool) -> None:
    if path.exists():
        raise refuse(f"{path} exists; name a new file")
    with services.database.write() as unit:
        trust = draft(unit, services.keys, change, services.clock.now())
    path.write_text(trust.draft().model_dump_json(indent=1) + "\n")
    print(json.dumps(_account(trust)) if as_json else f"{path}: draft of version {trust.version}; sign and publish it")


def _public_key(path: Path) -> str:
    text = path.read_text().strip()
    if not is_key(text):
        raise BadDocument(f"{path} holds no public root key; give the .pub file of `pock-server trust new-root-key`")
    return text


def _document(path: Path) -> TrustDocument:
    with path.open("rb") as file:
        return read_file(file.read(1 << 20))


def _confirm(stolen: Sequence[str], yes: bool) -> None:
    if stolen and not yes:
        typer.confirm(
            "Devices that know no trust document and pinned a revoked key have to be enrolled again. Go on?",
            abort=True,
            err=True,
        )


def _account(trust: Trust) -> dict[str, Any]:
    return {
        "version": trust.version,
        "expires_at": trust.expires_at.isoformat(),
        "signing_keys": [key_id_of(key) for key in trust.signing_keys],
        "root_keys": [key_id_of(key) for key in trust.root_keys],
        "threshold": trust.threshold,
    }


def _tell(done: Rotated, as_json: bool) -> None:
    account = _account(done.trust)
    current = set(account["signing_keys"])
    pinned = {key: count for key, count in done.pinned.items() if key not in current}
    revoked = [{"id": device.id, "name": device.name, "workspace_id": device.workspace_id} for device in done.revoked]
    if as_json:
        print(json.dumps({**account, "pinned": pinned, "revoked": revoked}))
        return
    print(f"version {done.trust.version} is published; work is signed by {', '.join(account['signing_keys'])}")
    for key, count in pinned.items():
        print(f"{count} devices know no trust document and pinned {key}: it goes on signing their work")
    for device in done.revoked:
        print(f"enrol anew: {device.name} ({device.id})")
