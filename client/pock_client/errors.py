"""What a client raises. Each message is one sentence that a person can act on, without control characters."""

from __future__ import annotations

import re

_MOST_CHARACTERS = 4000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def shown(text: str) -> str:
    """A text of the service's as one line that a terminal may print: no control characters, no end that never comes."""
    clean = _CONTROL.sub(" ", text[: 2 * _MOST_CHARACTERS]).strip()
    return clean if len(clean) <= _MOST_CHARACTERS else clean[:_MOST_CHARACTERS] + "…"


class PockClientError(Exception):
    """Everything that this library raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


class ServiceError(PockClientError):
    """The service refused a request, and said why.

    `status` is that of HTTP, `failure_code` the service's own (docs/service.md; None if it gave none), `title` and
    `detail` its sentences, `retryable` whether the same request may succeed later, `retry_after` the seconds to wait if
    it named them, `request_id` what its log calls the request.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        failure_code: int | None = None,
        *,
        retryable: bool = False,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail or title)
        self.status = status
        self.title = shown(title)
        self.detail = shown(detail)
        self.failure_code = failure_code
        self.retryable = retryable
        self.request_id = request_id
        self.retry_after = retry_after


class Unreachable(PockClientError):
    """No answer: the name or address is wrong, nothing listens there, or the connection broke again and again.

    `sent` is whether the service may have served the request, `may_pass` whether trying again makes sense.
    """

    def __init__(self, message: str, *, sent: bool = True, may_pass: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        self.may_pass = may_pass


class CredentialsError(PockClientError):
    """No address or key is known, the key is not one, or the service does not take it."""


class KeyRefused(ServiceError, CredentialsError):
    """The service does not take the key: unknown, expired, revoked, or of a member who is disabled (status 401)."""


class Damaged(PockClientError):
    """What arrived is not what the service was asked for: another size or digest, or no answer of its interface."""


class WaitTimeout(PockClientError):
    """A build or run is not over after the time that the caller allowed. It goes on; waiting again is fine."""


class _Ended(PockClientError):
    """A build or run that did not succeed: its `id`, and the failure's `code` and `detail` if there is one."""

    kind = ""

    def __init__(self, ident: str, state: str, code: int | None = None, detail: str = "") -> None:
        super().__init__(f"{self.kind} {ident} {state}" + (f": {detail}" if detail else ""))
        self.id = ident
        self.code = code
        self.detail = shown(detail)


class BuildFailed(_Ended):
    """A build ended without an artifact."""

    kind = "build"


class BuildCancelled(BuildFailed):
    """Somebody cancelled the build."""


class SearchFailed(_Ended):
    """A search ended without a recipe."""

    kind = "search"


class SearchCancelled(SearchFailed):
    """Somebody cancelled the search."""


class RunFailed(_Ended):
    """A run ended without a result."""

    kind = "run"


class FederationFailed(_Ended):
    """A federation ended before its last round."""

    kind = "federation"


class FederationCancelled(FederationFailed):
    """Somebody cancelled the federation."""


class RunCancelled(RunFailed):
    """Somebody cancelled the run."""


class CampaignFailed(_Ended):
    """A campaign was stopped by its rules or its deadline, or none of its cells succeeded."""

    kind = "campaign"


class CampaignCancelled(CampaignFailed):
    """Somebody cancelled the campaign."""
