"""A built dashboard, the real service with data in it, and a real headless Chromium."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, expect, sync_playwright

from tests.once import made_once
from tests.turns import by_turns
from tests.web.data import Data, fill
from tests.web.service import REPOSITORY, Service, running_service, workspace
from tests.web.visitor import Visitor

WEB = REPOSITORY / "web"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
BROWSER = shutil.which("chromium-headless-shell") or CHROMIUM
"""What tests start: the same engine; without windows it works a fifth less."""
# Generous: it is only ever waited out when a test fails.
WAIT_MS = 60_000
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
]


def _do_without(reason: str) -> NoReturn:
    """Skip on a machine of a person; where everything is required a missing tool is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The front end's tools."""
    folder = WEB / "node_modules"
    if shutil.which("npx") is None or not folder.is_dir():
        _do_without("The dashboard's tools are missing; install Node.js 20.19 or newer and run `npm ci` in web/.")
    return folder


@pytest.fixture(scope="session")
def web_dist(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dashboard, built from the present sources."""

    def build(folder: Path) -> None:
        command = ["npx", "vite", "build", "--outDir", str(folder), "--logLevel", "warn"]
        subprocess.run(command, cwd=WEB, check=True, timeout=120)

    return made_once(tmp_path_factory, "dashboard", build)


@pytest.fixture(scope="session")
def shared_service(web_dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for all modules."""
    with (
        running_service(tmp_path_factory.mktemp("service"), web_dist) as running,
        by_turns(Path(__file__).parent, lambda: [running.process]),
    ):
        yield running


@pytest.fixture(scope="module")
def service(shared_service: Service, request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service in a workspace of the module's own, so that no module finds what another left; `data` fills it."""
    with workspace(shared_service, request.node.nodeid) as own:
        yield own


@pytest.fixture(scope="module")
def data(service: Service) -> Data:
    """A fleet, builds in several states, and runs, put in over the REST interface."""
    return fill(service)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a module; each test gets a profile of its own.

    Not for the session: Playwright keeps an event loop running meanwhile, and other modules call `asyncio.run`.
    """
    if BROWSER is None:
        _do_without("Chromium is missing; install it (Debian: apt-get install chromium-headless-shell).")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def context_options() -> dict[str, Any]:
    """How the visitor's browser is; tests override it by parametrisation."""
    return {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}


@pytest.fixture
def visitor(
    browser: Browser, service: Service, node_modules: Path, context_options: dict[str, Any]
) -> Iterator[Visitor]:
    """A person who is not signed in yet; whatever the page complains about is collected, and fails the test."""
    yield from visiting(browser, service, node_modules, context_options)


def visiting(
    browser: Browser, service: Service, node_modules: Path, context_options: dict[str, Any]
) -> Iterator[Visitor]:
    """Somebody's browser profile on a service."""
    context: BrowserContext = browser.new_context(**context_options)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=service.url)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    expect.set_options(timeout=WAIT_MS)
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        # A refused request is part of some tests; Chromium reports every one of them.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            complaints.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    axe = (node_modules / "axe-core" / "axe.min.js").read_text()
    yield Visitor(page, service, axe, WEB / "test-results", complaints)
    context.close()
    assert complaints == []
