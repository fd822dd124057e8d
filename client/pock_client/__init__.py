"""A client of a PockEngine service, for programs. It knows the service's interface and nothing of how it is made.

`Client` and `AsyncClient` have the same resources; `errors` has all that they raise, `schema` the types of what they
answer, `events` those of what happens to builds and runs. `synchronous` is made from `asynchronous`, and `schema` from
the service's OpenAPI document, by `python -m client.generate`.
"""

from pock_client.asynchronous.client import AsyncClient
from pock_client.calls import PlainTextWarning
from pock_client.errors import (
    BuildCancelled,
    BuildFailed,
    CredentialsError,
    Damaged,
    KeyRefused,
    PockClientError,
    RunCancelled,
    RunFailed,
    ServiceError,
    Unreachable,
    WaitTimeout,
)
from pock_client.events import (
    EvaluationEvent,
    Event,
    LogEvent,
    OtherEvent,
    ProgressEvent,
    StateEvent,
    StepsEvent,
)
from pock_client.schema import (
    Artifact,
    Build,
    BuildState,
    Dataset,
    Device,
    DeviceState,
    EnrolmentToken,
    Entry,
    Failure,
    Me,
    Member,
    Model,
    Recipe,
    Role,
    Run,
    RunState,
    Scope,
    Step,
    Target,
)
from pock_client.synchronous.client import Client

__all__ = [
    "Artifact",
    "AsyncClient",
    "Build",
    "BuildCancelled",
    "BuildFailed",
    "BuildState",
    "Client",
    "CredentialsError",
    "Damaged",
    "Dataset",
    "Device",
    "DeviceState",
    "EnrolmentToken",
    "Entry",
    "EvaluationEvent",
    "Event",
    "Failure",
    "KeyRefused",
    "LogEvent",
    "Me",
    "Member",
    "Model",
    "OtherEvent",
    "PlainTextWarning",
    "PockClientError",
    "ProgressEvent",
    "Recipe",
    "Role",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunState",
    "Scope",
    "ServiceError",
    "StateEvent",
    "Step",
    "StepsEvent",
    "Target",
    "Unreachable",
    "WaitTimeout",
]
