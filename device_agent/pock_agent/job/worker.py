"""Carries one job out, state by state, along the table of `states`. Must not know how jobs arrive; `listener` does.

Each state's step can be repeated. What a step finished is on disk before the record moves on.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from pock_agent.confinement.child import Exit
from pock_agent.connection import backoff
from pock_agent.connection.heartbeat import Heartbeat, Occupation
from pock_agent.connection.service import Service
from pock_agent.device.health import HealthLog
from pock_agent.device.power import EnergyMeter
from pock_agent.disk.blobs import BlobCache, file_digest
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import read_json, write_json
from pock_agent.disk.local_data import LocalData
from pock_agent.errors import (
    AgentError,
    Away,
    Cancelled,
    FailureCode,
    JobFailed,
    LeaseLost,
    ServiceError,
    Unreachable,
    is_disk_full,
)
from pock_agent.job.benchmark import Benchmark, Surroundings, plan_of
from pock_agent.job.control import JobControl, Paused
from pock_agent.job.download import Downloader
from pock_agent.job.lease import LeaseKeeper
from pock_agent.job.local_data import place_local
from pock_agent.job.phase_events import PhaseEvents
from pock_agent.job.phases import PHASES, check_memory, run_phase
from pock_agent.job.record import JobRecord, remember_last
from pock_agent.job.report import per_step, step_times, thinned
from pock_agent.job.spool import AgentLines, EventSender, EventSpool, told
from pock_agent.job.stability import judge
from pock_agent.job.states import FINAL, State, Trigger
from pock_agent.job.weights import pack_trained, packed_weights, send, unpack_initial
from pock_agent.job.workplace import WEIGHTS, Workplace, entry_of, lay_out, needed_blobs
from pock_agent.place.place import Place, Room
from pock_agent.policy.keeper import PolicyKeeper
from pock_agent.settings import Settings
from pock_agent.trust.manifest import Entry, Manifest, WeightsForm
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)
_NO_LIMIT_SECONDS = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Resources:
    """What the agent lends to each job: its directory, its connection, its heartbeat, its policies, its settings, and
    the place where it runs."""

    directory: StateDirectory
    service: Service
    heartbeat: Heartbeat
    policies: PolicyKeeper
    settings: Settings
    place: Place


class Worker:
    """One job in hand, from its record to the end."""

    def __init__(self, resources: Resources, record: JobRecord, manifest: Manifest) -> None:
        self._resources, self._record, self._manifest = resources, record, manifest
        self._settings, self._service, self._directory = resources.settings, resources.service, resources.directory
        self._place = resources.place
        self._control = JobControl(resources.policies.verdict, resources.settings.pause_patience_seconds)
        self._cache = BlobCache(resources.directory.cache, resources.settings)
        self._lease = LeaseKeeper(resources.service, manifest.run_id, manifest.fence, self._control, resources.settings)
        self._deadline = time.monotonic() + (manifest.limits.wall_seconds or _NO_LIMIT_SECONDS)
        self._health: HealthLog | None = None
        self._workplace: Workplace | None = None
        self._room: Room | None = None
        self._breaks, self._broke_at = 0, 0.0  # of the connection to the place: how many of late, and the last one
        self._enforced: JsonObject = {}
        self._measured_peak: int | None = None
        self._steps: dict[State, Callable[[], None]] = {
            State.ACCEPTED: self._accept,
            State.DOWNLOADING: self._download,
            State.PAUSED: self._pause,
            State.UPLOADING: self._upload,
            State.REPORTING: self._report,
            **dict.fromkeys(PHASES, self._phase),
        }
        self._directory.job_folder.mkdir(exist_ok=True)
        (self._directory.job_folder / "reports").mkdir(exist_ok=True, mode=0o700)
        self._spool = EventSpool(self._directory.job_folder / "events.jsonl")
        self._lines = AgentLines(self._spool)
        self._sender = EventSender(
            self._spool, self._service, manifest.run_id, manifest.fence, self._control, self._settings
        )

    def carry_out(self) -> JobRecord:
        """Bring the job to its end; the final record. Interrupted anywhere, the record on disk says where to go on."""
        manifest = self._manifest
        self._resources.heartbeat.occupy(Occupation(manifest.run_id, manifest.fence, self._control.cancel))
        told.addHandler(self._lines)
        try:
            while self._record.state not in FINAL:
                self._advance()
        finally:
            told.removeHandler(self._lines)
            self._lease.stop()
            self._sender.stop()
            if self._health is not None:
                self._health.stop()
            self._resources.heartbeat.occupy(None)
        self._spool.close()
        self._leave()
        with contextlib.suppress(OSError):  # only `pock-agent status` misses it
            remember_last(self._directory, self._record, manifest)
        self._directory.clear_job()
        return self._record

    def _leave(self) -> None:
        """Nothing of the job stays where it ran."""
        if self._room is None:
            return
        try:
            self._room.remove()
            self._room = None
        except (Away, JobFailed) as error:
            log.warning("what the job left stays until the next one begins: %s", error)

    def _advance(self) -> None:
        """Take the step of the present state and move along the table."""
        state, trigger = self._record.state, Trigger.DONE
        log.info("run %s: %s", self._manifest.run_id, state.value)
        self._lines.listening = state is State.UPLOADING or not self._record.first_events
        try:
            if self._record.starts > self._settings.max_starts and state is State.ACCEPTED:
                raise JobFailed(FailureCode.CRASHED, f"interrupted {self._record.starts - 1} times; not tried again")
            self._steps[state]()
            if state is not State.REPORTING:
                self._control.check()
        except Paused as error:
            trigger = self._paused(error)
        except Away as error:
            trigger = self._left_alone(error)
        except LeaseLost as error:
            log.warning("run %s is given up: %s", self._manifest.run_id, error)
            trigger = Trigger.LOST
        except Cancelled as error:
            trigger = self._failed(Trigger.CANCELLED, JobFailed(FailureCode.CANCELLED, str(error)))
        except JobFailed as error:
            trigger = self._failed(Trigger.ERROR, error)
        except OSError as error:
            code = FailureCode.DISK_FULL if is_disk_full(error) else FailureCode.CRASHED
            trigger = self._failed(Trigger.ERROR, JobFailed(code, f"the agent stopped in state {state.value}: {error}"))
        self._record = self._record.moved(trigger)
        if trigger is Trigger.DONE and self._record.state is State.REPORTING:
            self._record = replace(self._record, result=self._result(None))
        self._save()

    def _paused(self, error: AgentError) -> Trigger:
        log.info("run %s is paused: %s", self._manifest.run_id, error)
        self._record = replace(self._record, pauses=self._record.pauses + 1)
        return Trigger.FORBIDDEN

    def _left_alone(self, error: Away) -> Trigger:
        """The place cannot be reached: pause until it can. Where it can and breaks off all the same, fail."""
        here = self._resources.policies.verdict(anew=True).allowed
        before, self._broke_at = self._broke_at, time.monotonic()
        recent = self._broke_at < before + self._settings.break_seconds
        self._breaks = (self._breaks if recent else 0) + 1 if here else 0
        if self._breaks > self._settings.max_breaks:
            detail = f"the connection broke {self._breaks} times, the last time: {error}"
            return self._failed(Trigger.ERROR, JobFailed(FailureCode.CRASHED, detail))
        time.sleep(self._settings.policy_seconds if here else 0.0)
        return self._paused(error)

    def _failed(self, trigger: Trigger, error: JobFailed) -> Trigger:
        """Put a failed result on the record, unless one is there already: what is being reported does not change."""
        log.warning("run %s: %s (%d)", self._manifest.run_id, error, error.code)
        if self._record.result is None:
            self._record = replace(self._record, result=self._result(error))
        return trigger

    def _save(self) -> None:
        try:
            self._record.save(self._directory)
        except OSError:
            # Whatever filled the disk, the record has to fit: partial downloads and the child's files can go.
            self._cache.drop_partials()
            if self._record.state is State.REPORTING:
                shutil.rmtree(self._directory.job_folder / "out", ignore_errors=True)
            try:
                self._record.save(self._directory)
            except OSError as error:
                path = self._directory.job_record
                raise AgentError(f"{path} cannot be written ({error.strerror}); free some room") from error

    # The steps, in the order of the table.

    def _accept(self) -> None:
        self._lease.acquire()
        self._lease.start()

    def _download(self) -> None:
        self._control.check_policies()
        self._place.clear(self._directory.job_folder)
        check_memory(self._manifest, self._place)
        placed = needed_blobs(self._manifest)
        files = Downloader(self._service, self._cache, self._control, self._settings).fetch_all(placed.values())
        self._control.check()
        laid_out = lay_out(self._directory.job_folder, self._manifest, files, self._place)
        self._room = laid_out.room
        unpack_initial(self._directory.job_folder, self._manifest)
        local = LocalData(self._directory)
        place_local(self._directory.job_folder, self._manifest, local, self._control, self._settings)
        self._workplace = replace(laid_out, may_pause=self._resources.policies.any or self._place.may_leave)
        if self._health is None:
            self._health = HealthLog(self._place.health(), self._settings.health_seconds, self._settings.health_samples)

    def _pause(self) -> None:
        """Keep the lease, and say why, until policies allow work again. That time does not count as the job's."""
        began = time.monotonic()
        self._accept()  # after a restart
        verdict = self._control.verdict()
        while not verdict.allowed:
            self._lease.tell(verdict.told())
            self._resources.heartbeat.beat_soon()
            self._control.wait(self._settings.policy_seconds)
            verdict = self._control.verdict()
        self._lease.tell(None)
        self._resources.heartbeat.beat_soon()
        self._deadline += time.monotonic() - began

    def _phase(self) -> None:
        phase = self._record.state
        entry = entry_of(phase, self._manifest)
        if self._health is not None:
            self._health.reached(None)
        if entry is None or self._finished_report(phase) is not None:
            return
        self._control.check_policies()
        assert self._workplace is not None, "the table leads through DOWNLOADING"
        repeated = phase.value in (self._record.first_events or {})
        first = self._first_event(phase)
        if entry is Entry.BENCH:
            report = self._benchmarked(self._workplace, phase, first)
        else:
            events = PhaseEvents(self._spool, first)
            deliver = self._with_steps(events.append) if entry is Entry.TRAIN else events.append
            report = events.complete(self._once(self._workplace, phase, entry, repeated, deliver))
            if entry is Entry.TRAIN:
                stability = judge(step_times(report), self._settings.bench_interval)
                report = {**report, "stability": {**asdict(stability), "tries": 1}}
        write_json(self._directory.job_folder / "reports" / f"{phase.value}.json", thinned(report))

    def _with_steps(self, deliver: Callable[[JsonObject], None]) -> Callable[[JsonObject], None]:
        """Delivers, and has samples of the health say which step was made."""
        health = self._health
        assert health is not None, "it began before the first phase"

        def delivered(event: JsonObject) -> None:
            step = event.get("step")
            if event["event"] == "step" and isinstance(step, int):
                health.reached(step)
            deliver(event)

        return delivered

    def _benchmarked(self, workplace: Workplace, phase: State, first: int) -> JsonObject:
        surroundings = Surroundings(
            self._directory.job_folder / "reports",
            self._spool,
            first,
            self._control,
            self._settings,
            self._place,
        )
        benchmark = Benchmark(plan_of(self._manifest, self._settings), surroundings)
        return benchmark.carry_out(lambda deliver: self._once(workplace, phase, Entry.BENCH, False, deliver))

    def _once(
        self, workplace: Workplace, phase: State, entry: Entry, resume: bool, deliver: Callable[[JsonObject], None]
    ) -> JsonObject:
        """What one process of a phase reports, with its energy where it trains."""
        policies = self._resources.policies
        meter = EnergyMeter(self._place.power() if entry is not Entry.EVAL or policies.counts_joules else None).start()
        try:
            with policies.working(meter):
                report, ended = run_phase(workplace, phase, entry, resume, deliver, self._control, self._deadline)
        finally:
            energy = meter.stop()
        self._remember_exit(report, ended)
        if entry is Entry.EVAL:
            return report
        return {**report, "energy": per_step(energy, report, resume, workplace.room.emulation.emulated)}

    def _first_event(self, phase: State) -> int:
        """The sequence number where a phase first began, on disk before it does."""
        first = dict(self._record.first_events or {})
        if phase.value not in first:
            first[phase.value] = len(self._spool)
            self._record = replace(self._record, first_events=first)
            self._save()
        return first[phase.value]

    def _upload(self) -> None:
        if not self._uploads():
            return
        path = pack_trained(self._directory.job_folder, self._manifest)
        send(path, self._service, self._control, self._settings)

    def _report(self) -> None:
        self._leave()
        self._sender.drain()
        body = self._record.result
        assert body is not None, "the table reaches REPORTING with a result only"
        failures = 0
        while True:
            if self._control.lost:
                self._control.check()
            try:
                self._service.send_result(self._manifest.run_id, body)
                return
            except (Unreachable, ServiceError) as error:
                failures += 1
                if isinstance(error, ServiceError) and error.takes_the_run:
                    raise LeaseLost(f"the result is not wanted any more: {error}") from error
                if isinstance(error, ServiceError) and not error.transient:
                    raise JobFailed(FailureCode.SERVICE, f"the service does not take the result: {error}") from error
                log.warning("sending the result: %s", error)
                time.sleep(backoff.delay(self._settings, failures, error))

    # What the result is made of.

    def _finished_report(self, phase: State) -> JsonObject | None:
        """The report of a phase that ended well, also before a restart; None when it has to run (again)."""
        try:
            report = read_json(self._directory.job_folder / "reports" / f"{phase.value}.json")
        except AgentError:
            return None
        if phase is State.TRAIN and self._uploads() and not (self._directory.job_folder / WEIGHTS).exists():
            return None
        return report

    def _uploads(self) -> bool:
        return self._manifest.run.entry is Entry.TRAIN and self._manifest.run.save_weights

    def _remember_exit(self, report: JsonObject, ended: Exit) -> None:
        self._enforced = ended.enforced
        peaks = [value for value in (report.get("peak_rss_bytes"), ended.peak_bytes) if isinstance(value, int)]
        if peaks:
            self._measured_peak = max(self._measured_peak or 0, peaks[0])

    def _result(self, failure: JobFailed | None) -> JsonObject:
        outcome = "succeeded" if failure is None else "failed"
        report: JsonObject = {phase.value: self._finished_report(phase) for phase in PHASES}
        report["health"] = self._health_report()
        body: JsonObject = {"fence": self._manifest.fence, "state": outcome, "report": report}
        if failure is None and self._uploads():
            body["weights_digest"] = file_digest(packed_weights(self._directory.job_folder, self._manifest))
            if self._manifest.run.weights_form is not WeightsForm.FULL:
                body["weights_form"] = self._manifest.run.weights_form.value
        if failure is not None:
            body["failure"] = {"code": int(failure.code), "detail": str(failure)}
        return body

    def _health_report(self) -> JsonObject:
        readings = {} if self._health is None else self._health.stop()
        self._health = None
        return {
            **readings,
            "emulated": self._workplace is not None and self._workplace.room.emulation.emulated,
            "planned_peak_bytes": self._manifest.limits.required_bytes or None,
            "measured_peak_bytes": self._measured_peak,
            "confinement": self._enforced,
            "starts": self._record.starts,
            "pauses": self._record.pauses,
        }
