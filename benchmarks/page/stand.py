"""A service with as many devices as are asked for, and a browser whose bytes and processor time are counted."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, sync_playwright

from tests.web.conftest import CHROMIUM, FLAGS, WEB
from tests.web.device import Device
from tests.web.service import Service, running_service

VIEWPORT = {"width": 1280, "height": 900}


def built_page(folder: Path) -> Path:
    """The page, built from the present sources. Raises RuntimeError without the front end's tools."""
    if shutil.which("npx") is None or not (WEB / "node_modules").is_dir() or CHROMIUM is None:
        raise RuntimeError("install Node.js 20.19 or newer and Chromium, and run `npm ci` in web/")
    dist = folder / "dist"
    subprocess.run(["npx", "vite", "build", "--outDir", str(dist), "--logLevel", "warn"], cwd=WEB, check=True)
    return dist


@contextmanager
def service_with(dist: Path, devices: int) -> Iterator[Service]:
    """A service whose fleet has this many devices, all copies of one that enrolled."""
    with tempfile.TemporaryDirectory(prefix="pock-page-") as name:
        folder = Path(name)
        with running_service(folder, dist) as service:
            Device(service, "device-0")
        (database,) = (file for file in folder.glob("*") if file.suffix in (".db", ".sqlite", ".sqlite3"))
        with closing(sqlite3.connect(database)) as connection, connection:
            _copied(connection, devices)
        with running_service(folder, dist) as service:
            yield service


def _copied(connection: sqlite3.Connection, count: int) -> None:
    connection.row_factory = sqlite3.Row
    row = dict(connection.execute("SELECT * FROM devices").fetchone())
    places = ", ".join(f":{column}" for column in row)
    copies = (
        {**row, "id": str(uuid.uuid4()), "name": f"device-{number}", "session_id": None, "session_hash": None}
        for number in range(1, count)
    )
    connection.executemany(f"INSERT INTO devices ({', '.join(row)}) VALUES ({places})", copies)


@dataclass(frozen=True)
class Tab:
    """A page in a browser profile of its own, and what counts its bytes."""

    page: Page
    context: BrowserContext
    tool: CDPSession
    received: list[tuple[str, float]]
    """Kind of each answer, and its bytes as they came over the wire."""

    def sign_in(self, service: Service, view: str = "/") -> None:
        """Open a view with a fresh key."""
        self.page.goto(f"{service.url}/#key={service.key}&next={view}")
        self.page.get_by_role("heading", level=1).wait_for()

    def open(self, view: str) -> None:
        self.page.evaluate("view => { location.hash = view }", view)

    def bytes_received(self) -> float:
        return sum(size for _, size in self.received)


@contextmanager
def compiling_service(dist: Path) -> Iterator[Service]:
    """An empty service with the real compiler."""
    with (
        tempfile.TemporaryDirectory(prefix="pock-page-") as name,
        running_service(Path(name), dist, worker={}) as service,
    ):
        yield service


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium without a graphics processor."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@contextmanager
def tab(running: Browser) -> Iterator[Tab]:
    """A tab that has nothing cached."""
    context = running.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
    page = context.new_page()
    page.add_init_script(_FRAMES)
    tool = context.new_cdp_session(page)
    tool.send("Network.enable")
    received: list[tuple[str, float]] = []
    kinds: dict[str, str] = {}
    tool.on("Network.responseReceived", lambda told: kinds.update({told["requestId"]: told["type"]}))

    def note(told: dict[str, object]) -> None:
        received.append((kinds.get(str(told["requestId"]), "?"), float(str(told["encodedDataLength"]))))

    tool.on("Network.dataReceived", note)
    yield Tab(page, context, tool, received)
    context.close()


_FRAMES = """
window.frames_of = async (act) => {
  const gaps = [];
  let on = true, last = performance.now();
  const tick = (now) => { gaps.push(now - last); last = now; if (on) requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  await act();
  on = false;
  return gaps.slice(1);
};
window.next_frame = () => new Promise(requestAnimationFrame);
"""


def share_of_a_core(seconds: float) -> float:
    """What the browser's processes use of one core meanwhile, from 0 on."""
    tree = [one for one in psutil.Process().children(recursive=True) if "chrom" in one.name()]

    def used() -> float:
        return float(sum(sum(one.cpu_times()[:2]) for one in tree if one.is_running()))

    before, began = used(), time.monotonic()
    time.sleep(seconds)
    return (used() - before) / (time.monotonic() - began)
