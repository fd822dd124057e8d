# Generated from pock_client/asynchronous by `python -m client.generate`.
"""Releases of the agent, and how they come to the devices."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from pock_client.calls import part, sending, settling
from pock_client.errors import PockClientError, WaitTimeout
from pock_client.files import Progress
from pock_client.pausing import Stream, directly, sleep
from pock_client.references import Reference
from pock_client.schema import (
    AgentRelease,
    AgentReleaseIn,
    AgentReleasePage,
    ReleaseDocument,
    Rollout,
    RolloutDevice,
    RolloutDevicePage,
    RolloutIn,
    RolloutPage,
    RolloutState,
)
from pock_client.synchronous.blobs import Blobs
from pock_client.synchronous.named import Named
from pock_client.synchronous.transport import Transport

_MAX_DOCUMENT_BYTES = 65_536
_LOOK_SECONDS = 1.0
MOVING = (RolloutState.running, RolloutState.reverting)
"""States that a rollout leaves by itself."""


class AgentReleases(Named[AgentRelease]):
    """`client.agent_releases`; where a name stands, it is a version."""

    words = "agent release"
    path = "/agent-releases"
    kind = AgentRelease
    page = AgentReleasePage

    def __init__(self, transport: Transport, blobs: Blobs) -> None:
        super().__init__(transport)
        self._blobs = blobs

    def fits(self, one: AgentRelease, name: str) -> bool:
        """Several documents may release one version: the newest counts."""
        return one.version == name

    def push(
        self,
        path: str | Path,
        document: str | Path | None = None,
        notes: str = "",
        progress: Progress | None = None,
    ) -> AgentRelease:
        """Upload the agent as one file, and release it by the document that `pock-server agent-release sign` made: that
        beside it, `FILE.release.json`, unless another is given. Raises PockClientError where there is none, and
        ServiceError with status 422 for one that the root keys did not sign."""
        path = Path(path)
        beside = path.with_name(path.name + ".release.json") if document is None else Path(document)
        signed = directly(read_document, beside)
        self._blobs.upload(path, progress)
        body = AgentReleaseIn(document=signed, notes=notes)
        return self._transport.json(sending("POST", self.path, body, once=True), AgentRelease)


class Rollouts(Named[Rollout]):
    """`client.rollouts`."""

    words = "rollout"
    path = "/rollouts"
    kind = Rollout
    page = RolloutPage

    def __init__(self, transport: Transport, releases: AgentReleases) -> None:
        super().__init__(transport)
        self._releases = releases

    def create(
        self,
        *,
        release: Reference,
        on: str,
        canary: int | None = None,
        stages: Sequence[int] | None = None,
        healthy_seconds: int | None = None,
        check_in_seconds: int | None = None,
        max_failed: int | None = None,
    ) -> Rollout:
        """Bring a release (or its version) to the devices that a selector chooses: `canary` of them first, then as far
        as each of `stages` in percent, each once those before have run it for `healthy_seconds`. What is left out, the
        service decides."""
        body = RolloutIn(
            release_id=self._releases.id_of(release),
            on=on,
            canary=UNSET if canary is None else canary,
            stages=UNSET if stages is None else list(stages),
            healthy_seconds=healthy_seconds or UNSET,
            check_in_seconds=check_in_seconds or UNSET,
            max_failed=UNSET if max_failed is None else max_failed,
        )
        return self._transport.json(sending("POST", self.path, body, once=True), Rollout)

    def devices(self, ident: str, state: str | None = None) -> Stream[RolloutDevice]:
        """How each device stands, or those in one state."""
        return self._transport.pages(f"{self.path}/{part(ident)}/devices", RolloutDevicePage, {"state": state})

    def pause(self, ident: str) -> Rollout:
        """Offer nothing more until it is resumed."""
        return self._change(ident, "pause")

    def resume(self, ident: str) -> Rollout:
        """Go on with a rollout that was paused, or that stopped."""
        return self._change(ident, "resume")

    def cancel(self, ident: str) -> Rollout:
        """End it; devices keep what they have."""
        return self._change(ident, "cancel")

    def roll_back(self, ident: str) -> Rollout:
        """Have the devices that took the release return to the version before. Raises ServiceError with status 409 for
        a release that was signed as final."""
        return self._change(ident, "roll-back")

    def wait(
        self, ident: str, on_change: Callable[[Rollout], None] | None = None, timeout: float | None = None
    ) -> Rollout:
        """The rollout once it moves no more by itself: it succeeded, stopped, or somebody holds or ended it. Raises
        WaitTimeout."""
        ends = None if timeout is None else time.monotonic() + timeout
        last = None
        while True:
            found = self.get(ident)
            if on_change is not None and found != last:
                on_change(found)
            last = found
            if found.state not in MOVING:
                return found
            if ends is not None and time.monotonic() >= ends:
                raise WaitTimeout(f"the rollout is {found.state} after {timeout:g} s; it goes on")
            sleep(_LOOK_SECONDS)

    def _change(self, ident: str, verb: str) -> Rollout:
        return self._transport.json(settling(self.path, ident, verb), Rollout)


def read_document(path: Path) -> ReleaseDocument:
    """The release document in a file."""
    try:
        with path.open("rb") as file:
            return msgspec.convert(json.loads(file.read(_MAX_DOCUMENT_BYTES)), ReleaseDocument)
    except FileNotFoundError:
        raise PockClientError(
            f"there is no release document {path}: have who keeps the root key say `pock-server agent-release sign`"
        ) from None
    except (ValueError, msgspec.ValidationError) as error:
        raise PockClientError(f"{path} is no release document: {error}") from None
