"""A client of a PockEngine service, for programs. It knows the service's interface and nothing of how it is made.

`errors` has all that it raises.
"""

from pock_client.errors import (
    BuildCancelled,
    BuildFailed,
    CredentialsError,
    Damaged,
    PockClientError,
    RunCancelled,
    RunFailed,
    ServiceError,
    Unreachable,
    WaitTimeout,
)

__all__ = [
    "BuildCancelled",
    "BuildFailed",
    "CredentialsError",
    "Damaged",
    "PockClientError",
    "RunCancelled",
    "RunFailed",
    "ServiceError",
    "Unreachable",
    "WaitTimeout",
]
