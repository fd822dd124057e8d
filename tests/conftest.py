"""Settings of the whole test suite: a cache folder of its own, kept from run to run; where everything is required, a
skipped test is a failed test."""

import gc
import os
import signal
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from pockengine.codegen.native.toolchain import zig_cache
from tests.sweeps import ALL
from tests.turns import give_turn

if "PYTEST_XDIST_WORKER" in os.environ:
    gc.disable()  # until all tests are collected
os.environ.setdefault("POCK_CACHE_DIR", str(Path(__file__).resolve().parents[1] / ".cache" / "tests"))
os.environ.setdefault("POCK_CACHE_LIMIT", "2GiB")
os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(zig_cache()))  # C libraries; the rest goes with the run
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by a shell's `&`: what we start would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
hypothesis.settings.register_profile("loaded", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("loaded")  # a machine with other work is no fault of a test
REQUIRE_ALL = os.environ.get("POCK_REQUIRE_ALL") == "1"

COMPUTING = ("tests/compiler/", "tests/structure/")
"""Tests that keep a core busy; the others mostly wait, for processes, browsers, emulators and clocks."""
TOGETHER = "tests/e2e/"
"""Tests that share a service with builds for three targets: one process has them all."""
LONG = ("tests/compiler/search/", "tests/deploy/", "tests/e2e/", "tests/examples/", "tests/faults/")
"""Tests that take a minute or more each."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where several processes share the tests, large ones are left to releases; modules that wait are spread among
    those that compute, long ones first: so no core rests while they wait, nor at the end."""
    if not hasattr(config, "workerinput"):
        return
    if not ALL:
        large = [item for item in items if item.get_closest_marker("large")]
        config.hook.pytest_deselected(items=large)
        kept = set(items).difference(large)
        items[:] = [item for item in items if item in kept]
    modules: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        modules[item.nodeid.partition("::")[0]].append(item)
    ordered = sorted(modules, key=lambda name: (not name.startswith(LONG), -len(modules[name])))
    computing = [name for name in ordered if name.startswith(COMPUTING)]
    waiting = [name for name in ordered if not name.startswith(COMPUTING)]
    places = {name: at / len(names) for names in (computing, waiting) for at, name in enumerate(names)}
    items[:] = [item for name in sorted(ordered, key=places.__getitem__) for item in modules[name]]


class Rooms(LoadScopeScheduling):
    """Gives modules to the processes, and what shares a service at once."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Rooms | None:
    """Of `--dist loadscope`."""
    return Rooms(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was imported and collected is no garbage: to look through it again takes a fifth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Wake the services of the test's folder."""
    give_turn(item.path)


@pytest.fixture(scope="session", autouse=True)
def zig_objects(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where zig keeps what it compiles, among the run's own folders."""
    os.environ["ZIG_LOCAL_CACHE_DIR"] = str(tmp_path_factory.mktemp("zig"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure under POCK_REQUIRE_ALL=1, so that a missing tool cannot hide a test."""
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail") and not item.get_closest_marker("may_skip"):
        report.outcome = "failed"
        report.longrepr = f"skipped where everything is required: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself whole."""
    report = yield
    if REQUIRE_ALL and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped where everything is required: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> object:
    """What was given to `pytest.skip`, without its place."""
    return longrepr[2] if isinstance(longrepr, tuple) else longrepr
