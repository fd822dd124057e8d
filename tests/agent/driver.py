"""Runs the agent in a process of its own with short intervals, so that tests can kill it or limit it."""

from __future__ import annotations

import logging
import resource
import subprocess
import sys
from pathlib import Path

from pock_agent.disk.directory import StateDirectory
from pock_agent.errors import AgentError
from pock_agent.life import agent
from pock_agent.settings import Settings

FAST = Settings(
    poll_seconds=1.0,
    poll_jitter_seconds=0.01,
    request_timeout_seconds=5.0,
    backoff_base_seconds=0.01,
    backoff_cap_seconds=0.05,
    lease_renew_seconds=0.1,
    events_seconds=0.02,
    events_drain_seconds=3.0,
    health_seconds=0.1,
    disk_reserve_bytes=0,
    policy_seconds=0.02,
)


def spawn(state: Path, file_limit: int = 0) -> subprocess.Popen[bytes]:
    """Start an agent on an enrolled state directory; it stops after one job."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.agent.driver", str(state), str(file_limit)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
    )


def main() -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    file_limit = int(sys.argv[2])
    if file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    try:
        return 0 if agent.run(StateDirectory(Path(sys.argv[1])), FAST, once=True) else 1
    except AgentError as error:
        print(f"pock-agent: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
