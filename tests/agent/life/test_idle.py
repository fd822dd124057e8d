"""An agent that waits costs its device little: a short form of `benchmarks.fleet.agent_idle`, with its bounds."""

from __future__ import annotations

import sys

from benchmarks.fleet.agent_idle import measure


def test_an_idle_agent_is_small_and_quiet() -> None:
    found = measure([sys.executable, "-m", "pock_agent"], seconds=20)
    assert found.resident_bytes < 40e6
    assert found.core_percent < 5, "0.5 is asked of a quiet machine"
    assert found.bytes_per_second < 1000
