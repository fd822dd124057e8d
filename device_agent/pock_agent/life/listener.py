"""Waits for work and decides whether to accept it. Must not know how a job is carried out; `worker` does."""

from __future__ import annotations

import logging
import random
import time

from pock_agent.connection import backoff
from pock_agent.connection.service import Work
from pock_agent.errors import AgentError, FailureCode, NotWelcome, Refused, ServiceError, Unreachable
from pock_agent.job.record import JobRecord, load_job, manifest_of
from pock_agent.job.states import State, Trigger
from pock_agent.policy.keeper import PolicyKeeper
from pock_agent.trust.document import MAX_VERSION
from pock_agent.trust.envelope import admit, open_envelope
from pock_agent.trust.manifest import Manifest
from pock_agent.update.updater import Surroundings, Updater
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)


class Listener:
    """The long poll of one device."""

    def __init__(self, around: Surroundings, updater: Updater, policies: PolicyKeeper) -> None:
        self._directory, self._identity, self._settings = around.directory, around.identity, around.settings
        self._keyring, self._counters, self._service = around.keyring, around.counters, around.service
        self._updater, self._policies = updater, policies
        self._failures = 0
        # What the service told of last; at the start, whatever there is. It is fetched between jobs, before the next
        # poll: work that was signed a moment before a rotation is then still believed.
        self._newest_trust = MAX_VERSION

    def interrupted_job(self) -> tuple[JobRecord, Manifest] | None:
        """The job that a kill, a crash or a power cut interrupted, ready to go on; None when there is none."""
        try:
            record = load_job(self._directory)
            if record is None:
                self._directory.clear_job()
                return None
            manifest = manifest_of(record, self._identity, self._keyring)
        except AgentError as error:
            log.error("%s", error)
            self._directory.clear_job()
            return None
        self._counters.accept_work(manifest.counter, manifest.issued_at)
        stopped_in = record.state
        # A pause is no interruption of anything: a device may start anew as often as it likes meanwhile.
        starts = record.starts + (stopped_in is not State.PAUSED)
        record = JobRecord(**{**vars(record.moved(Trigger.RESTART)), "starts": starts})
        record.save(self._directory)
        self._service.request_id = record.request_id
        log.info(
            "run %s was interrupted in state %s and goes on; the service knows it by request %s",
            manifest.run_id,
            stopped_in.value,
            record.request_id or "-",
        )
        return record, manifest

    def next_job(self) -> tuple[JobRecord, Manifest]:
        """Poll until there is work that verifies. Raises Refused for work that does not, NotWelcome when expelled,
        Replaced when another version of the agent is to go on."""
        while True:
            work = self._poll()
            if work is not None:
                return self._accept(work)

    def _poll(self) -> Work | None:
        """One long poll, and the pause that has to follow it; none at all while policies forbid work."""
        if not self._policies.verdict().allowed:
            time.sleep(self._settings.policy_seconds)
            return None
        self._keyring.catch_up(self._service, self._newest_trust)
        try:
            polled = self._service.work(self._keyring.version, self._updater.considered)
        except (Unreachable, ServiceError) as error:
            if isinstance(error, ServiceError) and error.expels:
                raise NotWelcome(f"the service gives this device no work: {error.detail}") from error
            self._failures += 1
            seconds = backoff.delay(self._settings, self._failures, error)
            log.warning("asking for work: %s; again in %.1f s", error, seconds)
            time.sleep(seconds)
            return None
        self._failures = 0
        work, self._newest_trust = polled.work, polled.newest_trust
        if work is None:
            self._updater.settle()
            if polled.offers_update:
                self._updater.consider()
            time.sleep((polled.pause or 0.0) + random.uniform(0, self._settings.poll_jitter_seconds))
        elif self._keyring.signing_key(work.envelope.get("key_id")) is None:
            self._keyring.catch_up(self._service, max(polled.newest_trust, (self._keyring.version or 0) + 1))
        return work

    def _accept(self, work: Work) -> tuple[JobRecord, Manifest]:
        self._service.request_id = work.request_id
        try:
            manifest = open_envelope(work.envelope, self._identity, self._keyring)
            admit(manifest, self._counters.values, time.time(), self._keyring.trust)
            self._check_policies(manifest)
        except Refused as error:
            self._report_refusal(error)
            raise
        # The record first: killed in between, the job goes on and the counter is caught up; never the other way round.
        record = JobRecord(State.ACCEPTED, work.envelope, request_id=work.request_id)
        record.save(self._directory)
        self._counters.accept_work(manifest.counter, manifest.issued_at)
        log.info("run %s is accepted; the service knows it by request %s", manifest.run_id, work.request_id or "-")
        return record, manifest

    def _check_policies(self, manifest: Manifest) -> None:
        """Refuse for now what came while a policy ended: the run waits at the service, and its queue deadline holds."""
        verdict = self._policies.verdict(anew=True)
        if not verdict.allowed:
            raise Refused(f"policies forbid work: {verdict.reason}", manifest.run_id, manifest.fence, for_now=True)

    def _report_refusal(self, error: Refused) -> None:
        """Tell the service why its own, properly signed work cannot be done, or not now; of anything else say nothing.

        A service of before does not know what it is to decline: the run is left to its lease.
        """
        log.error("work refused: %s", error)
        if error.run_id is None or error.fence is None:
            return
        try:
            if error.for_now:
                self._service.decline(error.run_id, error.fence, str(error))
                return
            failure = {"code": int(FailureCode.VERIFICATION), "detail": str(error)}
            body: JsonObject = {"fence": error.fence, "state": "failed", "report": {}, "failure": failure}
            self._service.send_result(error.run_id, body)
        except (Unreachable, ServiceError) as trouble:
            log.warning("the refusal could not be reported: %s", trouble)
