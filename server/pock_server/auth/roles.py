"""Roles of members: each is a set of scopes, and each can do what the one before it can."""

from collections.abc import Mapping
from enum import StrEnum

from pock_server.auth.schemas import Scope


class Role(StrEnum):
    """What a member is to its workspace."""

    VIEWER = "viewer"
    """Looks."""
    DEVELOPER = "developer"
    """Uploads, builds and runs."""
    OPERATOR = "operator"
    """Lets devices in and sends them away, and reads the audit log."""
    ADMIN = "admin"
    """Decides who else gets in."""


_VIEWER = frozenset({Scope.READ})
_DEVELOPER = _VIEWER | {Scope.MODELS_WRITE, Scope.BUILDS_WRITE, Scope.RUNS_WRITE}
_OPERATOR = _DEVELOPER | {Scope.DEVICES_ADMIN, Scope.AUDIT_READ}

SCOPES_OF: Mapping[Role, frozenset[Scope]] = {
    Role.VIEWER: _VIEWER,
    Role.DEVELOPER: _DEVELOPER,
    Role.OPERATOR: _OPERATOR,
    Role.ADMIN: frozenset(Scope),
}
