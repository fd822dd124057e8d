"""Settings of the whole test suite: where everything is required, a skipped test is a failed test."""

import os
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure under POCK_REQUIRE_ALL=1, so that a missing tool cannot hide a test."""
    report = yield
    required = os.environ.get("POCK_REQUIRE_ALL") == "1" and item.get_closest_marker("may_skip") is None
    if required and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where everything is required: {report.longreprtext}"
    return report
