"""What Lighthouse says of every view, as a desktop and as a phone, against the real service on loopback.

    python -m benchmarks.page.lighthouse [--views run,compare] [--json FILE] [--write docs/dashboard.md]

A phone is a mid-range one whatever the machine: its processor is taken to be as many times slower as Lighthouse's
calculator says for the machine's index, which the audits as a desktop measure.

Exit status 1 when a score is below what is asked for. Accessibility and best practices are the same each time;
performance is not, so a view that is below is measured again, and its best counts. npm fetches Lighthouse into its own
cache on the first use; the dashboard does not depend on it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks.document import machine, save_figures, table, write_section
from benchmarks.page.furnished import VIEWS, Furnished, furnished_service
from benchmarks.page.stand import built_page
from tests.web.conftest import CHROMIUM, FLAGS
from tests.web.service import Service

PACKAGE = "lighthouse@12.8.2"
LEAST = 95
TRIES = 3
SIGN_IN = "sign-in"
CATEGORIES = ("performance", "accessibility", "best-practices")
PHONE = "phone"
FORMS = {"desktop": ["--preset=desktop"], PHONE: ["--form-factor=mobile"]}
"""How a browser is taken to be: with Lighthouse's own screen and connection of each."""
_START_SECONDS = 30
_AUDIT_SECONDS = 180


@dataclass(frozen=True)
class Verdict:
    """Scores of a view from 0 to 100 by category, what cost points, and the machine's index as it was measured then."""

    view: str
    form: str
    scores: dict[str, int]
    faults: list[str]
    index: float

    @property
    def good(self) -> bool:
        return all(score >= LEAST for score in self.scores.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit what is asked for."""
    options = _parser().parse_args(arguments)
    verdicts: list[Verdict] = []
    with (
        tempfile.TemporaryDirectory(prefix="pock-page-") as folder,
        furnished_service(built_page(Path(folder))) as furnished,
    ):
        for form in FORMS:
            with _chromium(Path(folder) / form) as port:
                for verdict in _audits(furnished, options.views, Browser(form, port, _processor(form, verdicts))):
                    verdicts.append(verdict)
                    print(_line(verdict), flush=True)
    print(_machine(verdicts))
    if options.json:
        figures = [{"view": one.view, "form": one.form, "index": one.index, **one.scores} for one in verdicts]
        save_figures(options.json, {"lighthouse": PACKAGE, "machine": machine(1), "figures": figures})
    if options.write:
        write_section(options.write, "lighthouse", summary(verdicts))
    return 0 if all(verdict.good for verdict in verdicts) else 1


def summary(verdicts: Sequence[Verdict]) -> str:
    """A table in Markdown: a row for each view, its scores in the order of `CATEGORIES` as desktop and as phone."""
    found = {(one.view, one.form): " / ".join(map(str, one.scores.values())) for one in verdicts}
    views = dict.fromkeys(one.view for one in verdicts)
    rows = table(["view", *FORMS], [[view, *(found[view, form] for form in FORMS)] for view in views])
    return f"{_machine(verdicts)}\n\n{rows}"


def slowdown(index: float) -> float:
    """How many times slower a mid-range phone is than a machine of this index, by the calculator that Lighthouse refers
    to (github.com/patrickhulce/lighthouse-cpu-throttling-calculator): 4, Lighthouse's default, at 1533."""
    for least, times, step in ((1300, 3, 233), (800, 2, 500), (150, 1, 650)):
        if index >= least:
            return times + (index - least) / step
    return 1.0


def _index(verdicts: Sequence[Verdict]) -> float:
    """The machine's, as it was measured beside audits as a desktop."""
    return median(one.index for one in verdicts if one.form != PHONE)


def _processor(form: str, verdicts: Sequence[Verdict]) -> list[str]:
    """Options for the processor of a form, once those before it were audited."""
    return [f"--throttling.cpuSlowdownMultiplier={slowdown(_index(verdicts)):.2f}"] if form == PHONE else []


def _machine(verdicts: Sequence[Verdict]) -> str:
    index = _index(verdicts)
    return f"The machine's index was {index:.0f}; a phone was taken to be {slowdown(index):.1f} times slower."


@dataclass(frozen=True)
class Browser:
    """One that runs: as what, the port of its tools, and what Lighthouse is told of its processor."""

    form: str
    port: int
    processor: list[str]

    @property
    def options(self) -> list[str]:
        """All that Lighthouse is told of it."""
        return [f"--port={self.port}", *FORMS[self.form], *self.processor]


def _audits(furnished: Furnished, views: Sequence[str], browser: Browser) -> Iterator[Verdict]:
    service = furnished.service
    if SIGN_IN in views:
        yield _best(SIGN_IN, f"{service.url}/", browser)
    _sign_in(service, browser.port)
    for view in views:
        if view != SIGN_IN:
            yield _best(view, f"{service.url}/#{furnished.address(view)}", browser)


def _best(view: str, url: str, browser: Browser) -> Verdict:
    """Of as many tries as it takes, but three at most. Raises RuntimeError where Lighthouse failed each time."""
    found: list[Verdict] = []
    problems: list[str] = []
    for _ in range(TRIES):
        try:
            found.append(_audit(view, url, browser))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            problems.append(str(error))
            continue
        if found[-1].good:
            break
    if not found:
        raise RuntimeError("\n".join(problems))
    return max(found, key=lambda one: one.scores["performance"])


def _audit(view: str, url: str, browser: Browser) -> Verdict:
    """Raises RuntimeError where Lighthouse could not look at the page."""
    form = browser.form
    command = ["npm", "exec", "--yes", f"--package={PACKAGE}", "--", "lighthouse", url, "--quiet", *browser.options]
    command += ["--no-enable-error-reporting", f"--only-categories={','.join(CATEGORIES)}"]
    with tempfile.TemporaryDirectory(prefix="pock-page-") as folder:
        # Into a file: what Lighthouse writes to a pipe ends where the pipe is full.
        file = Path(folder) / "report.json"
        command += ["--output=json", f"--output-path={file}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_AUDIT_SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(f"Lighthouse could not look at {view} as {form}: {done.stderr.strip()}")
        told = json.loads(file.read_text())
    if "runtimeError" in told:
        raise RuntimeError(f"Lighthouse could not look at {view} as {form}: {told['runtimeError']['message']}")
    if view != SIGN_IN and _refused(told):
        raise RuntimeError(
            f"the service refused what {view} asked for, so that another page was seen: {_refused(told)}"
        )
    return verdict_of(view, form, told)


def _refused(told: dict[str, Any]) -> list[str]:
    """Requests for which the browser was not signed in, or that found nothing."""
    asked = told["audits"]["network-requests"]["details"]["items"]
    return [str(one["url"]) for one in asked if one.get("statusCode", 0) >= 400]


def verdict_of(view: str, form: str, told: dict[str, Any]) -> Verdict:
    """What a report of Lighthouse, in its JSON, comes to."""
    scores, faults = {}, []
    for name in CATEGORIES:
        category = told["categories"][name]
        scores[name] = round(100 * (category["score"] or 0))
        for reference in category["auditRefs"]:
            audit = told["audits"][reference["id"]]
            if reference["weight"] and audit["score"] is not None and audit["score"] < 0.9:
                faults.append(f"{audit['title']} {audit.get('displayValue', '')}".strip())
    return Verdict(view, form, scores, faults, float(told["environment"]["benchmarkIndex"]))


def _sign_in(service: Service, port: int) -> None:
    """The browser keeps the cookie when this leaves it."""
    with sync_playwright() as playwright:
        running = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
        page = running.contexts[0].new_page()
        page.goto(f"{service.url}/#key={service.key}")
        page.get_by_role("navigation", name="Main").wait_for()
        page.close()
        running.close()


@contextmanager
def _chromium(profile: Path) -> Iterator[int]:
    """One with a profile of its own; the loopback port of its tools."""
    profile.mkdir()
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield _port(profile / "DevToolsActivePort")
    finally:
        process.terminate()
        process.wait(timeout=20)


def _port(file: Path) -> int:
    ends_at = time.monotonic() + _START_SECONDS
    while not (file.exists() and file.read_text().strip()):
        if time.monotonic() > ends_at:
            raise RuntimeError("Chromium did not start")
        time.sleep(0.05)
    return int(file.read_text().split()[0])


def _line(verdict: Verdict) -> str:
    scores = "  ".join(f"{name} {score:3}" for name, score in verdict.scores.items())
    faults = "".join(f"\n    {fault}" for fault in verdict.faults) if not verdict.good else ""
    return f"{' ' if verdict.good else '!'} {verdict.form:<8} {verdict.view:<20} {scores}{faults}"


def _views(text: str) -> list[str]:
    asked = [one.strip() for one in text.split(",")] if text else []
    known = [SIGN_IN, *VIEWS]
    for one in asked:
        if one not in known:
            raise argparse.ArgumentTypeError(f"there is no view {one!r}; there are: {'; '.join(known)}")
    return asked or known


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--views", type=_views, default="", help="only these, by name, separated by commas")
    parser.add_argument("--json", type=Path, help="keep the scores here")
    parser.add_argument("--write", type=Path, help="the document whose section is rewritten")
    return parser


if __name__ == "__main__":
    sys.exit(main())
