"""The chaos in small; `python -m tests.faults.fleet` is the whole of it."""

from pathlib import Path

from tests.faults.fleet.stage import Plan, perform


def test_each_run_has_one_outcome_and_no_device_needs_a_hand(tmp_path: Path) -> None:
    account = perform(tmp_path, Plan(agents=4, seconds=25, seed=5, pause=1.5), print)
    assert len(account.struck) >= 4 and account.runs.runs >= 4 and account.rollouts
