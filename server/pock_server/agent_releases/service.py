"""Keeps releases of the agent: what a document says is checked against the uploaded files."""

import base64
import hashlib
from datetime import datetime
from typing import Any

from pock_server.agent_releases.archive import BadArchive, read_archive
from pock_server.agent_releases.document import MAX_FILE_BYTES, Release, verified
from pock_server.agent_releases.repository import AgentReleases
from pock_server.agent_releases.schemas import AgentReleaseIn, AgentReleaseOut, ReleaseDocument
from pock_server.agent_releases.tables import AgentReleaseRecord
from pock_server.audit.service import Action, gone, made, record
from pock_server.blobs.repository import Blobs
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.selectors.versions import version_rank
from pock_server.http.problems import Failure, Problem
from pock_server.services import Services
from pock_server.trust.documents import BadDocument


def checked(services: Services, workspace_id: str, document: ReleaseDocument) -> Release:
    """What the document says, once the root keys vouch for it and its files are here and are what it says; a `Problem`
    otherwise. Call it outside of any transaction: files are read."""
    with services.database.read() as session:
        trust = services.keys.current(session).trust
        try:
            release = verified(document, trust, services.clock.now())
        except BadDocument as error:
            raise Problem(Failure.INVALID, f"body.document: {error}.") from None
        blobs = Blobs(session, workspace_id)
        sizes = {digest: blobs.require(digest).size for digest in release.by_digest()}
    for digest, size in release.by_digest().items():
        if sizes[digest] != size:
            detail = f"File {digest} has {sizes[digest]} bytes, and the document says {size}."
            raise Problem(Failure.BAD_DATA, detail)
        _check_file(services, digest, release)
    return release


def _check_file(services: Services, digest: str, release: Release) -> None:
    try:
        archive = read_archive(services.blobs.read(digest, limit=MAX_FILE_BYTES))
    except BadArchive as error:
        raise Problem(Failure.BAD_DATA, f"File {digest}: {error}.") from None
    if archive.version != release.version:
        detail = f"File {digest} is version {archive.version}, and the document says {release.version}."
        raise Problem(Failure.BAD_DATA, detail)
    lacking = {name for name, file in release.files.items() if file.sha256 == digest} - set(archive.platforms)
    if lacking:
        raise Problem(Failure.BAD_DATA, f"File {digest} has nothing for {', '.join(sorted(lacking))}.")


def create_release(
    unit: Unit, workspace_id: str, order: AgentReleaseIn, release: Release, now: datetime
) -> tuple[AgentReleaseRecord, bool]:
    """Keep a release that was `checked`, or find the same document; says whether it is new. A version names one
    content: another document of it has to have the same files."""
    releases, blobs = AgentReleases(unit.session, workspace_id), Blobs(unit.session, workspace_id)
    payload = base64.b64decode(order.document.payload)
    digest = hashlib.sha256(payload).hexdigest()
    files: dict[str, Any] = {name: file.model_dump() for name, file in release.files.items()}
    for known in releases.of_version(release.version):
        if known.payload_digest == digest:
            return known, False
        if any(known.files.get(name, file) != file for name, file in files.items()):
            detail = f"Version {release.version} was released with another file; give this one a new version."
            raise Problem(Failure.STATE_CONFLICT, detail)
    for file in release.by_digest():
        blobs.take(file, now)
    row = AgentReleaseRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        version=release.version,
        rank=version_rank(release.version) or 0,
        payload=order.document.payload,
        payload_digest=digest,
        signatures=[signature.model_dump() for signature in order.document.signatures],
        files=files,
        issued_at=release.issued,
        expires_at=release.expires,
        downgrade=release.downgrade,
        revert=release.revert,
        notes=order.notes,
    )
    releases.add(row)
    blobs.use(row.id, release.by_digest())
    record(unit, Action.AGENT_RELEASE_CREATE, row, row.version, now, made(version=row.version, files=files))
    return row, True


def delete_release(unit: Unit, workspace_id: str, release_id: str, now: datetime) -> None:
    """Forget a release that was never rolled out; a 409 `Problem` if it was."""
    row = AgentReleases(unit.session, workspace_id).require(release_id, lock=True)
    rollouts = AgentReleases(unit.session, workspace_id).count_rollouts(row.id)
    if rollouts:
        raise Problem(Failure.STATE_CONFLICT, f"Release {row.version} has {rollouts} rollouts, which tell of it.")
    record(unit, Action.AGENT_RELEASE_DELETE, row, row.version, now, gone(version=row.version, files=row.files))
    Blobs(unit.session, workspace_id).release(row.id, now)
    unit.session.delete(row)


def document_of(row: AgentReleaseRecord) -> ReleaseDocument:
    """The document as it was signed."""
    return ReleaseDocument(payload=row.payload, signatures=row.signatures)


def show(row: AgentReleaseRecord) -> AgentReleaseOut:
    """The release as the API shows it."""
    return AgentReleaseOut.model_validate(
        {
            "id": row.id,
            "version": row.version,
            "files": row.files,
            "issued_at": row.issued_at,
            "expires_at": row.expires_at,
            "downgrade": row.downgrade,
            "revert": row.revert,
            "notes": row.notes,
            "document": document_of(row),
            "created_at": row.created_at,
        }
    )
