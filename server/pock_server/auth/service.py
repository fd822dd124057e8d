"""Makes, checks and revokes API keys."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from pock_server.auth import secrets
from pock_server.auth.repository import ApiKeys, find_key_anywhere
from pock_server.auth.schemas import ApiKeyCreated, ApiKeyIn, ApiKeyOut, Scope
from pock_server.auth.tables import ApiKeyRecord
from pock_server.clock import new_id
from pock_server.http.problems import Failure, Problem

_CHALLENGE = {"WWW-Authenticate": "Bearer"}


@dataclass(frozen=True)
class Caller:
    """The person or script behind a request."""

    workspace_id: str
    key_id: str
    scopes: frozenset[Scope]

    def demand(self, *any_of: Scope) -> None:
        """Raise a 403 `Problem` unless the caller has one of the scopes."""
        if not self.scopes.intersection(any_of):
            raise Problem(
                Failure.SCOPE_MISSING, f"This call needs an API key with the scope {' or '.join(map(str, any_of))}."
            )


def authenticate(session: Session, credential_text: str | None, now: datetime) -> Caller:
    """The caller that the credential stands for; raises a 401 `Problem` otherwise."""
    credential = secrets.parse(credential_text, secrets.Kind.API_KEY) if credential_text else None
    row = find_key_anywhere(session, credential.row_id) if credential else None
    if credential is None or row is None or not credential.matches(row.secret_hash):
        raise unknown_key()
    if row.revoked_at is not None:
        raise Problem(Failure.KEY_REVOKED, "This API key was revoked; ask for a new one.", _CHALLENGE)
    if row.expires_at <= now:
        detail = f"This API key expired at {row.expires_at.isoformat()}; ask for a new one."
        raise Problem(Failure.KEY_EXPIRED, detail, _CHALLENGE)
    return Caller(row.workspace_id, row.id, frozenset(Scope(s) for s in row.scopes))


def unknown_key() -> Problem:
    """What is answered to who sends no key, or one that is not known here."""
    detail = "Send an API key of this service as `Authorization: Bearer pk_<id>_<secret>`."
    return Problem(Failure.KEY_UNKNOWN, detail, _CHALLENGE)


def create_key(keys: ApiKeys, order: ApiKeyIn, now: datetime) -> ApiKeyCreated:
    """Make a key; the answer holds the only copy of its secret."""
    credential = secrets.generate(secrets.Kind.API_KEY, new_id(now))
    row = ApiKeyRecord(
        id=credential.row_id,
        workspace_id=keys.workspace_id,
        name=order.name,
        scopes=sorted({str(s) for s in order.scopes}),
        secret_hash=credential.hash,
        created_at=now,
        expires_at=now + timedelta(days=order.ttl_days),
        revoked_at=None,
    )
    keys.add(row)
    return ApiKeyCreated(**describe(row).model_dump(), key=credential.text)


def refuse_escalation(caller: Caller, wanted: Sequence[Scope]) -> None:
    """A key may only make keys that can do no more than itself."""
    missing = sorted(set(wanted) - caller.scopes)
    if missing:
        raise Problem(Failure.SCOPE_MISSING, f"This API key cannot grant what it lacks: {', '.join(missing)}.")


def revoke_key(keys: ApiKeys, key_id: str, now: datetime) -> None:
    """End a key now; revoking it again changes nothing."""
    row = keys.require(key_id, lock=True)
    row.revoked_at = row.revoked_at or now


def describe(row: ApiKeyRecord) -> ApiKeyOut:
    """The key as the API shows it."""
    return ApiKeyOut(
        id=row.id,
        name=row.name,
        scopes=[Scope(s) for s in row.scopes],
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
