"""Says whether this device may work now: by the owner's policies and the service's, its state, and its use of today.

One for the agent; safe to ask from several threads. It looks anew every few seconds, whenever it is asked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pock_agent.device.power import EnergyMeter
from pock_agent.disk.directory import StateDirectory
from pock_agent.errors import AgentError, Refused
from pock_agent.place.place import Place
from pock_agent.policy.ledger import Ledger
from pock_agent.policy.rules import Policy
from pock_agent.policy.signed import ServicePolicies, keep, kept_policies, open_policies
from pock_agent.policy.sources import SYSTEM, Found, OwnersFiles
from pock_agent.policy.verdict import ALLOWED, Cause, Facts, Obstacle, Verdict, judge
from pock_agent.settings import Settings
from pock_agent.trust.keyring import Keyring
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)


class PolicyKeeper:
    """See the module. Policies ask about `place`. The system's policy lies below `root`, which is `/` but in tests;
    `clock` gives seconds since the epoch."""

    def __init__(
        self,
        directory: StateDirectory,
        device_id: str,
        settings: Settings,
        place: Place,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._directory, self._device_id, self._settings = directory, device_id, settings
        self._place, self._clock = place, clock
        self._files = OwnersFiles((root / SYSTEM, directory.owners_policy))
        self._service = _kept(directory, device_id)
        self._ledger = Ledger(directory.ledger)
        self._lock = threading.RLock()
        self._verdict, self._look_at = ALLOWED, 0.0
        self._metered: tuple[float, bool | None] = (0.0, None)
        self._counted: tuple[float, float] | None = None  # while working: up to when, and the meter's joules then
        self._meter: EnergyMeter | None = None

    @property
    def digest(self) -> str:
        """Names the service's policies that this device has."""
        return self._service.digest

    @property
    def counter(self) -> int:
        """Of the service's policies that this device has."""
        return self._service.counter

    def policies(self) -> Found:
        """All policies, and what cannot be followed."""
        owners = self._files.read()
        return Found(owners.policies + self._service.policies, owners.unreadable)

    @property
    def any(self) -> bool:
        """Whether anybody set a policy."""
        found = self.policies()
        return bool(found.policies or found.unreadable)

    @property
    def counts_joules(self) -> bool:
        """Whether a policy limits the energy of a day."""
        return any(policy.max_joules_per_day is not None for _, policy in self.policies().policies)

    def verdict(self, anew: bool = False) -> Verdict:
        """Whether work is allowed now, as it was a few seconds ago unless it is to look `anew`."""
        with self._lock:
            if anew or time.monotonic() >= self._look_at:
                self._look()
            return self._verdict

    def facts(self, policies: Sequence[Policy]) -> Facts:
        """What these policies ask about."""
        now = self._clock()
        use = self._ledger.today(now)
        joules = use.joules
        if joules is None and any(one.max_joules_per_day is not None for one in policies):
            joules = None if self._place.power() is None else 0.0
        return Facts(
            charging=self._place.charging() if any(one.charging for one in policies) else None,
            temperature_celsius=self._place.temperature()
            if any(one.max_temperature_celsius is not None for one in policies)
            else None,
            metered=self._is_metered() if any(not one.metered for one in policies) else None,
            minutes_today=use.seconds / 60,
            joules_today=joules,
        )

    @contextmanager
    def working(self, meter: EnergyMeter) -> Iterator[None]:
        """Count all until the end of the block as work, with the energy that the meter adds up."""
        with self._lock:
            self._meter, self._counted = meter, (time.monotonic(), meter.joules or 0.0)
        try:
            yield
        finally:
            with self._lock:
                self._count()
                self._meter = self._counted = None
                self._ledger.save()

    def take(self, envelope: object, keyring: Keyring) -> None:
        """Keep what the service sends, if it is good; what was kept before holds otherwise."""
        try:
            service, text = open_policies(envelope, self._device_id, keyring, self._service.counter)
            keep(self._directory, text)
        except (Refused, OSError) as error:
            log.error("the service's policy is not taken: %s", error)
            return
        with self._lock:
            self._service, self._look_at = service, 0.0
        log.info("the service's policy %d is taken", service.counter)

    def _look(self) -> None:
        self._count()
        self._ledger.save(self._settings.ledger_seconds if self._counted else float("inf"))
        found = self.policies()
        policies = [policy for _, policy in found.policies]
        facts = self.facts(policies) if policies else Facts()
        verdict = judge(found.policies, facts, self._clock(), self._verdict)
        verdict = Verdict(self._away() + found.unreadable + verdict.obstacles)
        if verdict.allowed != self._verdict.allowed:
            log.info("work is allowed" if verdict.allowed else "no work for now: %s", *verdict.obstacles[:1])
        self._verdict, self._look_at = verdict, time.monotonic() + self._settings.policy_seconds

    def _away(self) -> tuple[Obstacle, ...]:
        reason = self._place.away()
        return () if reason is None else (Obstacle(self._place.name, Cause.AWAY, reason),)

    def _count(self) -> None:
        """Put the work since the last time on the ledger."""
        if self._counted is None or self._meter is None:
            return
        since, before = self._counted
        now, joules = time.monotonic(), self._meter.joules
        self._ledger.add(self._clock(), now - since, None if joules is None else joules - before)
        self._counted = now, joules or 0.0

    def _is_metered(self) -> bool | None:
        ask_at, known = self._metered
        if time.monotonic() >= ask_at:
            known = self._place.metered()
            self._metered = time.monotonic() + self._settings.metered_seconds, known
        return known


class PolicyTopic:
    """What heartbeats say about policies, and what the service answers."""

    def __init__(self, keeper: PolicyKeeper, keyring: Keyring) -> None:
        self._keeper, self._keyring = keeper, keyring

    def say(self) -> JsonObject:
        """Which of the service's policies this device has, and why it rests, if it does."""
        return {"policy": self._keeper.digest, "resting": self._keeper.verdict().told()}

    def hear(self, answer: JsonObject) -> None:
        """Take the newer policy, if there is one."""
        if answer.get("policy") is not None:
            self._keeper.take(answer["policy"], self._keyring)


def _kept(directory: StateDirectory, device_id: str) -> ServicePolicies:
    try:
        return kept_policies(directory, device_id)
    except AgentError as error:
        log.error("%s", error)
        return ServicePolicies()
