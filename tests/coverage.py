"""Which lines and branches of our packages a run of tests reaches: `pytest -p tests.coverage [--cover-below PERCENT]`.

SlipCover counts with instructions that it adds to a module as it is imported and takes out once they have run, so that
a counted run takes hardly longer. What child processes reach is not seen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slipcover import FileMatcher, ImportManager, Slipcover, merge_coverage, print_coverage

ROOT = Path(__file__).resolve().parents[1]
COMPILER = "compiler/pockengine"
PACKAGES = (COMPILER, "server/pock_server", "device_agent/pock_agent", "client/pock_client")
TOO_LITTLE = 6
"""The exit status then, which is none of pytest's own: to run what failed once more would not help."""
COUNTS = ("covered_lines", "missing_lines", "covered_branches", "missing_branches")


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much is enough, and whether to tell of each file."""
    group = parser.getgroup("coverage")
    told = "fail if all tests together reach less of the compiler"
    group.addoption("--cover-below", type=float, default=0.0, metavar="PERCENT", help=told)
    group.addoption("--cover-files", action="store_true", help="say which lines and branches each file lacks")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Count from here on: what conftest files import counts."""
    early_config.pluginmanager.register(_Counted(), "counted")


class _Counted:
    """What this process reached and, in the one that has workers, what they did."""

    def __init__(self) -> None:
        self._counter = Slipcover(branch=True, immediate=True)
        self._workers: list[dict[str, Any]] = []
        matcher = FileMatcher()
        for package in PACKAGES:
            matcher.addSource(ROOT / package)
        ImportManager(self._counter, matcher).__enter__()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker sends as it ends; one that crashed sends nothing."""
        output = getattr(node, "workeroutput", {})
        if "coverage" in output:
            self._workers.append(json.loads(output["coverage"]))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In a worker, send; else sum up and fail below what was asked for."""
        self._found = self._counter.get_coverage()
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["coverage"] = json.dumps(self._found)
            return
        for found in self._workers:
            merge_coverage(self._found, found)
        ran = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if ran and self._too_little(session.config):
            session.exitstatus = TOO_LITTLE

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("coverage of lines and branches")
        terminalreporter.write_line(f"reached by this process and {len(self._workers)} that sent what they did")
        option = terminalreporter.config.option
        if option.cover_files:
            print_coverage(self._found, outfile=terminalreporter, missing_width=60, skip_covered=True)
        for package in PACKAGES:
            lines, no_lines, branches, no_branches = self._counts(package)
            terminalreporter.write_line(
                f"{package:24}{_percent(lines, no_lines):5.1f} % of {lines + no_lines:6,} lines, "
                f"{_percent(branches, no_branches):5.1f} % of {branches + no_branches:6,} branches, "
                f"{self._percent(package):5.1f} % together"
            )
        if self._too_little(terminalreporter.config):
            terminalreporter.write_line(
                f"the compiler has less than {option.cover_below:g} %: test what is new", red=True
            )

    def _too_little(self, config: pytest.Config) -> bool:
        whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        return whole and self._percent(COMPILER) < float(config.option.cover_below)

    def _counts(self, package: str) -> list[int]:
        files = [about["summary"] for name, about in self._found["files"].items() if name.startswith(package)]
        return [sum(summary[count] for summary in files) for count in COUNTS]

    def _percent(self, package: str) -> float:
        lines, no_lines, branches, no_branches = self._counts(package)
        return _percent(lines + branches, no_lines + no_branches)


def _percent(reached: int, missing: int) -> float:
    return 100 * reached / (reached + missing or 1)
