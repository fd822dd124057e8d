"""Commands that sign releases of the agent, where the root key is: `agent-release …`."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from pock_server.agent_releases.archive import BadArchive, read_archive
from pock_server.agent_releases.document import MAX_FILE_BYTES, TYPE, AgentFile, Release, read, time_text
from pock_server.agent_releases.schemas import ReleaseDocument
from pock_server.cli.common import AsJson, DataDir, refuse, settings_for
from pock_server.signing import Signer, read_key
from pock_server.trust.documents import MAX_FILE_BYTES as MAX_DOCUMENT_BYTES
from pock_server.trust.documents import BadDocument, sign

LIFE_DAYS = 90
_MAX_DAYS = 3650

agent_release_app = typer.Typer(
    name="agent-release", no_args_is_help=True, help="Sign releases of the agent, away from the service."
)


@agent_release_app.callback()
def common() -> None:
    """Sign releases of the agent, away from the service."""


@agent_release_app.command("sign")
def sign_release(
    file: Annotated[Path, typer.Argument(help="The agent as one file, as `make agent` builds it.")],
    root_key: Annotated[
        list[Path] | None,
        typer.Option("--root-key", help="PEM file of a root key; may be given again. Default: the service's own."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=_MAX_DAYS, help="How long agents take it.")] = LIFE_DAYS,
    downgrade: Annotated[bool, typer.Option("--downgrade", help="Agents of newer versions may go back to it.")] = False,
    final: Annotated[bool, typer.Option("--final", help="The service cannot take it back once it runs.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the document goes; default: FILE.release.json.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Say what version a file is, and sign that devices may replace their agent with it. Needs no running service.

    Where the document is there already, the signature is added to it: several root keys sign one after the other.
    """
    signers = [_key(path) for path in root_key or [settings_for(data_dir).effective_root_key_file]]
    path = output or file.with_name(file.name + ".release.json")
    try:
        content = _content(file)
        present = _present(path, content)
        document = sign(present or _draft(content, days, downgrade, not final).unsigned(), signers, TYPE)
        path.write_text(document.model_dump_json(indent=1) + "\n")
    except (BadArchive, BadDocument) as error:
        raise refuse(f"{file}: {error}") from None
    except OSError as error:
        raise refuse(f"{error.filename}: {error.strerror}") from None
    release = read(document)
    account = {
        "document": str(path),
        "version": release.version,
        "platforms": sorted(release.files),
        "expires_at": release.expires_at,
        "downgrade": release.downgrade,
        "revert": release.revert,
        "signed_by": [signature.key_id for signature in document.signatures],
    }
    if as_json:
        print(json.dumps(account))
        return
    for name, value in account.items():
        print(f"{name:10} {', '.join(value) if isinstance(value, list) else value}")


def _key(path: Path) -> Signer:
    try:
        return read_key(path)
    except FileNotFoundError:
        raise refuse(f"there is no root key {path}: say which one signs with --root-key FILE") from None
    except ValueError as error:
        raise refuse(str(error)) from None


def _content(file: Path) -> bytes:
    with file.open("rb") as opened:
        content = opened.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise BadArchive(f"it is longer than {MAX_FILE_BYTES} bytes")
    return content


def _present(path: Path, content: bytes) -> ReleaseDocument | None:
    """The document that another key signed already, if it is of this very file."""
    if not path.exists():
        return None
    with path.open("rb") as opened:
        text = opened.read(MAX_DOCUMENT_BYTES)
    try:
        document = ReleaseDocument.model_validate_json(text)
    except ValueError:
        raise BadDocument(f"{path} exists, and is no release document") from None
    if set(read(document).by_digest()) != {hashlib.sha256(content).hexdigest()}:
        raise BadDocument(f"{path} exists, and is of another file; name a new document with --output")
    return document


def _draft(content: bytes, days: int, downgrade: bool, revert: bool) -> Release:
    archive = read_archive(content)
    file = AgentFile(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    now = datetime.now(UTC)
    return Release(
        version=archive.version,
        issued_at=time_text(now),
        expires_at=time_text(now + timedelta(days=days)),
        files=dict.fromkeys(archive.platforms, file),
        downgrade=downgrade,
        revert=revert,
    )
