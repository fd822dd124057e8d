"""The record of the job in hand: one small file that is replaced whole, and is all that a restart needs to know."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace

from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import known, read_json, write_json
from pock_agent.disk.identity import Identity
from pock_agent.errors import AgentError, Refused
from pock_agent.job.states import State, Trigger, after
from pock_agent.trust.envelope import open_envelope
from pock_agent.trust.keyring import Keyring
from pock_agent.trust.manifest import Manifest
from pock_agent.values import JsonObject, format_time


@dataclass(frozen=True)
class JobRecord:
    """`starts` counts how often the job was begun; `first_events` is where each phase's events begin in the spool."""

    state: State
    envelope: JsonObject
    starts: int = 1
    first_events: dict[str, int] | None = None
    result: JsonObject | None = None
    pauses: int = 0
    request_id: str | None = None  # of the request that asked for the run: logs of the service are searched by it

    def moved(self, trigger: Trigger) -> JobRecord:
        """The record in the state that follows."""
        return replace(self, state=after(self.state, trigger))

    def save(self, directory: StateDirectory) -> None:
        """Make it durable."""
        write_json(directory.job_record, {**asdict(self), "state": self.state.value})


def load_job(directory: StateDirectory) -> JobRecord | None:
    """The job that was in hand when the agent last ran, or None."""
    stored = read_json(directory.job_record)
    if stored is None:
        return None
    try:
        return JobRecord(**{**known(JobRecord, stored), "state": State(stored["state"])})
    except (TypeError, KeyError, ValueError) as error:
        raise AgentError(
            f"{directory.job_record} is not of this agent's version ({error}); the job is given up"
        ) from error


def manifest_of(record: JobRecord, identity: Identity, keyring: Keyring) -> Manifest:
    """The job's manifest, its signature checked again: the file may have been changed while the agent was away."""
    try:
        return open_envelope(record.envelope, identity, keyring)
    except Refused as error:
        raise AgentError(f"the recorded job no longer verifies ({error}); it was given up") from error


def remember_last(directory: StateDirectory, record: JobRecord, manifest: Manifest) -> None:
    """Keep a short account of the finished job for `pock-agent status`."""
    result = record.result or {}
    write_json(
        directory.last_job,
        {
            "run_id": manifest.run_id,
            "outcome": result.get("state") if record.state is State.REPORTED else record.state.value,
            "failure": result.get("failure"),
            "finished_at": format_time(time.time()),
        },
    )
