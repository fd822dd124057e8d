"""The state directory: where each file of the agent lies, and the lock that keeps a second agent out.

Layout: `identity.json`, `trust.json` (which keys sign work), `device.key` (0600), `counters.json`, `job.json` (the job
in hand), `last_job.json`, `policy.toml` (the owner's), `policies.json` (the service's), `ledger.json` (what was used by
day), `data.json` (data that stays here), `cache/sha256/DIGEST`, `cache/partial/DIGEST`, `job/` (the working folder of
the job in hand), `agent/` (the files of the agent itself, and what starts them), `lock`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from pathlib import Path

from pock_agent.errors import AgentError


def default_state_directory() -> Path:
    """`/var/lib/pock-agent` for root, the XDG state folder for anyone else."""
    if os.geteuid() == 0:
        return Path("/var/lib/pock-agent")
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "pock-agent"


LOCK_PATIENCE = 2.0
"""Seconds to wait for the lock of a state directory."""


def _lock_within(descriptor: int, seconds: float) -> None:
    """Lock a file for this process alone. Raises OSError when another still holds it after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.05)
        else:
            return


class StateDirectory:
    """Paths below one state directory, and its lock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.identity = root / "identity.json"
        self.trust = root / "trust.json"
        self.key = root / "device.key"
        self.counters = root / "counters.json"
        self.job_record = root / "job.json"
        self.last_job = root / "last_job.json"
        self.owners_policy = root / "policy.toml"
        self.policies = root / "policies.json"
        self.ledger = root / "ledger.json"
        self.local_data = root / "data.json"
        self.cache = root / "cache"
        self.job_folder = root / "job"
        self.launching = root / "agent"
        self._lock_path = root / "lock"
        self._lock: int | None = None

    def create(self) -> None:
        """Make the directory, readable for its owner only."""
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise AgentError(f"cannot create the state directory {self.root}: {error.strerror}") from error

    def lock(self) -> None:
        """Take the directory for this process until it ends.

        Waits a moment: the child of an agent that was killed may hold the lock until it has become its program. Raises
        AgentError naming the other process when an agent already runs on it.
        """
        if not self.root.is_dir():
            raise AgentError(f"{self.root} does not exist; enrol first: pock-agent enroll URL TOKEN")
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock_within(descriptor, LOCK_PATIENCE)
        except OSError as error:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise AgentError(
                f"another pock-agent (process {owner}) already uses {self.root}; "
                "stop it, or give this one its own --state-dir"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        self._lock = descriptor

    def unlock(self) -> None:
        """Give the directory back; harmless when it is not held."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def running_process(self) -> int | None:
        """The process id of the agent that holds the lock, or None."""
        try:
            descriptor = os.open(self._lock_path, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            return int(text) if text.isdigit() else 0
        finally:
            os.close(descriptor)
        return None

    def clear_job(self) -> None:
        """Forget the job in hand: its record first, so that a kill in between cannot run it again."""
        with contextlib.suppress(FileNotFoundError):
            self.job_record.unlink()
        shutil.rmtree(self.job_folder, ignore_errors=True)
