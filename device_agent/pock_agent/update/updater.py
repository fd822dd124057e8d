"""Replaces the agent by what its service offers, between jobs, and says how that went.

Everything is on disk before the next thing depends on it: the file, then the switch. Killed anywhere, the device runs
the version before or the new one; the launcher sees to it that the new one lasts.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pock_agent import __version__
from pock_agent.connection import backoff
from pock_agent.connection.service import Service
from pock_agent.device.target import machine
from pock_agent.disk.blobs import BlobCache
from pock_agent.disk.counters import Counters
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.identity import Identity
from pock_agent.errors import FailureCode, JobFailed, NotWelcome, ServiceError, Unreachable, Untrusted, is_disk_full
from pock_agent.job.control import JobControl
from pock_agent.job.download import Downloader
from pock_agent.settings import Settings
from pock_agent.trust.keyring import Keyring
from pock_agent.update.files import Unfit, drop_others, name_of, place, try_out
from pock_agent.update.launcher import AGAIN, SUPERVISED
from pock_agent.update.release import Action, Offer, Release, open_offer, rank
from pock_agent.update.standing import MAX_STARTS, Standing, entry
from pock_agent.values import JsonObject, format_time

log = logging.getLogger(__name__)


class Replaced(Exception):
    """Another file is the present one: this process has to end, and the launcher to start it."""


class Told(str, Enum):
    """What the service hears of an offer."""

    WAITING = "waiting"
    """It cannot be now; the detail says why."""
    INSTALLING = "installing"
    """The file is fetched and tried."""
    STARTED = "started"
    """This version runs."""
    FAILED = "failed"
    """It is not installed; the version before goes on."""
    ROLLED_BACK = "rolled_back"
    """It was installed, and the version before runs again."""
    UNSUPPORTED = "unsupported"
    """This agent cannot replace itself by it."""


class _Declined(Exception):
    """The offer is not followed."""

    def __init__(self, told: Told, why: str) -> None:
        super().__init__(why)
        self.told = told


@dataclass(frozen=True)
class Surroundings:
    """What an update needs of the agent."""

    directory: StateDirectory
    identity: Identity
    keyring: Keyring
    counters: Counters
    service: Service
    settings: Settings


def nothing_forbids() -> str | None:
    """Without a policy, an update may always be."""
    return None


class Updater:
    """The updates of one device. `forbidden` says why an update may not be now, or None."""

    def __init__(self, around: Surroundings, forbidden: Callable[[], str | None] = nothing_forbids) -> None:
        self._around, self._forbidden = around, forbidden
        self._service, self.standing = around.service, Standing(around.directory)
        self.considered = "none"
        """The rollout whose offer was last considered: the service need not hurry to tell of it again."""
        self._owed = False
        self._waits: tuple[str, str] | None = None

    def begin(self) -> None:
        """Before the first job: a file on trial tells the service that it runs, as often as it takes. What became of
        the last trial is told, too. Raises NotWelcome when the service expelled the device."""
        if not self.standing.launched:
            return
        drop_others(self.standing)
        trial = self.standing.trial()
        if trial is not None:
            self._check_in(trial)
        self._owed = entry(self.standing.read(), "ended").get("reported") is False
        self.settle()

    def settle(self) -> None:
        """Tell how the last trial ended, if the service does not know it yet."""
        ended = entry(self.standing.read(), "ended") if self._owed else {}
        if ended and self._tell(str(ended.get("rollout_id")), Told.ROLLED_BACK, str(ended.get("reason"))):
            self.standing.change(lambda launch: entry(launch, "ended").update(reported=True))
            self._owed = False

    def consider(self) -> None:
        """Deal with the offer that the service told of. Raises Replaced once another file is the present one."""
        if self.standing.trial() is not None:
            return
        try:
            envelope = self._service.update_offer()
            if envelope is None:
                return
            offer = open_offer(envelope, self._around.identity.device_id, self._around.keyring, self._now())
        except (Unreachable, ServiceError, Untrusted) as error:
            log.error("an offer of another version is not followed: %s", error)
            return
        self.considered = offer.rollout_id
        try:
            if offer.action is Action.REVERT:
                self._revert(offer)
            else:
                self._install(offer)
        except _Declined as error:
            log.warning("version %s: %s", offer.release.version, error)
            self._tell(offer.rollout_id, error.told, str(error))

    def _now(self) -> float:
        """A clock set back revives no old document."""
        trust = self._around.keyring.trust
        issued = 0.0 if trust is None else trust.issued_at
        return max(time.time(), self._around.counters.values.signed_time, issued)

    def _install(self, offer: Offer) -> None:
        launch = self.standing.read()
        if not self.standing.launched:
            raise _Declined(
                Told.UNSUPPORTED,
                "this agent was not set up as one file by `pock-agent install`; update it as it was installed",
            )
        blob = offer.release.file
        if blob is None:
            raise _Declined(Told.UNSUPPORTED, f"the release has no file for linux-{machine()}")
        if entry(launch, "current").get("file") == name_of(blob.sha256) or offer.release.version == __version__:
            self._tell(offer.rollout_id, Told.STARTED)
            return
        self._check(offer.release, launch)
        why = self._forbidden()
        if why is not None:
            self._wait(offer.rollout_id, why)
            return
        self._tell(offer.rollout_id, Told.INSTALLING)
        self._bring(offer.release)
        self.standing.change(lambda launch: _switch(launch, offer, name_of(blob.sha256)))
        log.info("version %s replaces %s", offer.release.version, __version__)
        raise Replaced

    def _wait(self, rollout_id: str, why: str) -> None:
        """Tell why it cannot be now, once for each reason."""
        if self._waits != (rollout_id, why) and self._tell(rollout_id, Told.WAITING, why):
            log.info("another version waits: %s", why)
            self._waits = rollout_id, why

    def _check(self, release: Release, launch: JsonObject) -> None:
        """Neither what has expired, nor what is older than what was taken once, nor an older version unless the root
        keys say so."""
        if self._now() >= release.expires_at:
            raise _Declined(Told.FAILED, f"the release expired at {format_time(release.expires_at)}; sign it anew")
        newest = launch.get("newest_issued_at")
        if isinstance(newest, (int, float)) and release.issued_at < newest:
            raise _Declined(Told.FAILED, f"the release is older than the one of {format_time(newest)}, taken before")
        if rank(release.version) < rank(__version__) and not release.downgrade:
            raise _Declined(Told.FAILED, f"this is version {__version__}, and the release does not allow to go back")

    def _bring(self, release: Release) -> None:
        blob, around = release.file, self._around
        assert blob is not None, "the caller looked"
        cache = BlobCache(around.directory.cache, around.settings)
        try:
            found = Downloader(around.service, cache, JobControl(), around.settings).fetch_all([blob])
            path = place(self.standing, found[blob], blob.sha256)
        except JobFailed as error:
            told = Told.WAITING if error.code == FailureCode.SERVICE else Told.FAILED
            raise _Declined(told, str(error)) from error
        except OSError as error:
            advice = "; free some room" if is_disk_full(error) else ""
            raise _Declined(Told.FAILED, f"the file could not be stored ({error.strerror}){advice}") from error
        finally:
            cache.drop(blob)
        try:
            try_out(path, around.directory, release.version)
        except Unfit as error:
            path.unlink(missing_ok=True)
            raise _Declined(Told.FAILED, f"it does not start here: {error}") from error

    def _revert(self, offer: Offer) -> None:
        """Return to the version before, which ran here, if this one is what is taken back and allows it."""
        blob, launch = offer.release.file, self.standing.read()
        if not self.standing.launched or blob is None or entry(launch, "current").get("file") != name_of(blob.sha256):
            raise _Declined(Told.ROLLED_BACK, f"version {__version__} runs here")
        if not offer.release.revert or not entry(launch, "previous"):
            why = "its root keys do not allow it" if not offer.release.revert else "no version before it is kept"
            raise _Declined(Told.FAILED, f"version {__version__} cannot be taken back: {why}")
        self.standing.change(lambda launch: _go_back(launch, offer))
        log.info("version %s is taken back", __version__)
        raise Replaced

    def _check_in(self, trial: JsonObject) -> None:
        failures = 0
        while not self._tell(str(trial.get("rollout_id")), Told.STARTED):
            failures += 1
            time.sleep(backoff.delay(self._around.settings, failures))
        self.standing.change(lambda launch: entry(launch, "trial").update(checked_in=True))
        log.info("version %s is on trial, and has checked in", __version__)
        lasted = threading.Timer(float(trial.get("healthy_seconds") or 0), self._lasted, [trial.get("rollout_id")])
        lasted.daemon = True
        lasted.start()

    def _lasted(self, rollout_id: object) -> None:
        def end(launch: JsonObject) -> None:
            if entry(launch, "trial").get("rollout_id") == rollout_id:
                launch["trial"] = None

        try:
            self.standing.change(end)
        except OSError as error:
            log.error("the end of the trial could not be written: %s", error)
        log.info("version %s has lasted", __version__)

    def _tell(self, rollout_id: str, told: Told, detail: str = "") -> bool:
        """Whether the service heard it; one that does not know the rollout any more has heard it as well."""
        body: JsonObject = {"rollout_id": rollout_id, "state": told.value, "version": __version__}
        try:
            self._service.tell_update({**body, "detail": detail[:500]})
        except (Unreachable, ServiceError) as error:
            if isinstance(error, ServiceError) and error.expels:
                raise NotWelcome(f"the service gives this device no work: {error.detail}") from error
            log.warning("%s could not be told: %s", told.value, error)
            return isinstance(error, ServiceError) and not error.transient
        return True


def _switch(launch: JsonObject, offer: Offer, name: str) -> None:
    """The new file is the present one, on trial."""
    launch["previous"] = launch.get("current")
    launch["current"] = {"file": name, "version": offer.release.version}
    launch["newest_issued_at"] = offer.release.issued_at
    launch["trial"] = {
        "rollout_id": offer.rollout_id,
        "starts": 0,
        "max_starts": MAX_STARTS,
        "check_in_seconds": offer.check_in_seconds,
        "healthy_seconds": offer.healthy_seconds,
        "checked_in": False,
    }


def _go_back(launch: JsonObject, offer: Offer) -> None:
    """The file before is the present one, and nothing is tried."""
    launch.update(current=launch["previous"], previous=None, trial=None)
    launch["ended"] = {
        "rollout_id": offer.rollout_id,
        "version": offer.release.version,
        "reason": "the service took it back",
        "at": time.time(),
        "reported": False,
    }


def restart(directory: StateDirectory) -> int:
    """Have the launcher start the present file: the exit code that asks it to, or this process becomes it."""
    program = Standing(directory).home / "launcher.py"
    if os.environ.get(SUPERVISED) == "1":
        return AGAIN
    os.execv(sys.executable, [sys.executable, str(program), *sys.argv[1:]])
