# Generated from pock_client/asynchronous by `python -m client.generate`.
"""Federations: training on many devices that keep their data, round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypedDict, Unpack

from msgspec import UNSET

from pock_client.calls import Call, part, sending, settling
from pock_client.errors import FederationCancelled, FederationFailed, PockClientError
from pock_client.events import Event
from pock_client.files import Progress
from pock_client.pausing import Stream
from pock_client.references import Reference
from pock_client.schema import Aggregation, Federation, FederationIn, FederationPage, Round, RoundList
from pock_client.synchronous.followed import Followed
from pock_client.synchronous.runs import Sources
from pock_client.synchronous.transport import Transport


class FederationOptions(TypedDict, total=False):
    """What a federation may be told beside what it is of; the service has the defaults."""

    minimum: int
    """So many devices must answer; default: half of them."""
    steps: int
    """Of each device in a round."""
    epochs: float
    """Instead of steps: how often each device goes through its data."""
    aggregation: str
    """"fedavg", "fedadam" or "median"."""
    server_learning_rate: float
    clip_norm: float
    """Updates that are longer are made this long."""
    noise_multiplier: float
    """Deviation of the noise, in clip norms; the privacy that this keeps is stated with `delta`."""
    delta: float
    norm_bound: float
    """Longest update that counts, in medians of the round's."""
    round_deadline: int
    """Most seconds that a round waits for devices, and that they train."""
    seed: int
    threads: int
    priority: int
    weights_of: str
    """A run that trained the weights to begin with, or their digest."""


class Federations(Followed[Federation]):
    """`client.federations`."""

    words = "federation"
    path = "/federations"
    kind = Federation
    page = FederationPage

    def __init__(self, transport: Transport, sources: Sources) -> None:
        super().__init__(transport)
        self._sources = sources

    def create(
        self,
        *,
        name: str,
        build: Reference,
        on: str,
        rounds: int,
        devices_per_round: int,
        dataset: str | Mapping[str, str],
        **options: Unpack[FederationOptions],
    ) -> Federation:
        """Train on devices that a selector chooses. `dataset` is a name, in which `{device}` stands for the device's,
        or says which device has which dataset, by ids."""
        body = FederationIn(
            name=name,
            build_id=self._sources.builds.id_of(build),
            on=on,
            rounds=rounds,
            devices_per_round=devices_per_round,
            minimum=options.get("minimum") or -(-devices_per_round // 2),
            dataset=dataset if isinstance(dataset, str) else UNSET,
            datasets=UNSET if isinstance(dataset, str) else dict(dataset),
            steps=options.get("steps") or UNSET,
            epochs=options.get("epochs") or UNSET,
            aggregation=Aggregation(options["aggregation"]) if "aggregation" in options else UNSET,
            server_learning_rate=options.get("server_learning_rate", UNSET),
            clip_norm=options.get("clip_norm", UNSET),
            noise_multiplier=options.get("noise_multiplier", UNSET),
            delta=options.get("delta", UNSET),
            norm_bound=options.get("norm_bound", UNSET),
            round_deadline_seconds=options.get("round_deadline") or UNSET,
            seed=options.get("seed") or UNSET,
            threads=options.get("threads") or UNSET,
            priority=options.get("priority") or UNSET,
            weights_of=options.get("weights_of") or UNSET,
        )
        return self._transport.json(sending("POST", self.path, body, once=True), Federation)

    def cancel(self, ident: str) -> Federation:
        """Cancel a federation that is not over, and its runs."""
        return self._transport.json(settling(self.path, ident, "cancel"), Federation)

    def rounds(self, ident: str, after: int = 0) -> Stream[Round]:
        """Its rounds after number `after`, the present one among them, with what became of each device."""
        while True:
            call = Call("GET", f"{self.path}/{part(ident)}/rounds", {"after": after})
            items = (self._transport.json(call, RoundList)).items
            yield from items
            if not items or items[-1].number <= after:
                return
            after = items[-1].number

    def wait(
        self, ident: str, on_event: Callable[[Event], object] | None = None, timeout: float | None = None
    ) -> Federation:
        """The federation once it succeeded. Raises FederationFailed, FederationCancelled, or WaitTimeout after
        `timeout` seconds."""
        found = self.ended(ident, on_event, timeout)
        if found.state == "succeeded":
            return found
        code, detail = (found.failure.code, found.failure.detail) if found.failure else (None, "")
        kind = FederationCancelled if found.state == "cancelled" else FederationFailed
        raise kind(found.id, found.state, code, detail)

    def weights(self, federation: str | Federation, path: str | Path, progress: Progress | None = None) -> Path:
        """Write its newest weights, all of them, as safetensors, to `path`, which is returned."""
        found, digest = self._trained(federation)
        return self._sources.weights.restore(found.build_id, digest, Path(path), progress)

    def delta(self, federation: str | Federation, path: str | Path, progress: Progress | None = None) -> Path:
        """Write what it changed of its build's weights to `path`, which is returned."""
        _, digest = self._trained(federation)
        return self._sources.weights.download(digest, Path(path), progress)

    def _trained(self, federation: str | Federation) -> tuple[Federation, str]:
        found = federation if isinstance(federation, Federation) else self.get(federation)
        if found.weights_digest is None:
            raise PockClientError(f"federation {found.name} has no weights yet: no round has ended")
        return found, found.weights_digest
