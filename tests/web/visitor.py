"""What a person does with the page, and what must hold on every page."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.web.service import Service

FITS_SECONDS = 5
"""A page that has just been opened may be wider for as long: its fonts, styles and charts come one after another."""


DRAWN = """(canvas, series) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return series.map((name) => {
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);
        probe.fillRect(0, 0, 1, 1);
        const colour = [...probe.getImageData(0, 0, 1, 1).data].join();
        let count = 0;
        for (let at = 0; at < data.length; at += 4) count += data.slice(at, at + 4).join() === colour;
        return count;
    });
}"""
"""Pixels of a chart in the colour of each series."""


@dataclass(frozen=True)
class Visitor:
    """One tab of a fresh browser profile."""

    page: Page
    service: Service
    axe: str
    results: Path
    complaints: list[str]
    """What the browser's console said is wrong; the test fails unless it is empty in the end."""

    def sign_in(self) -> None:
        """Follow a link that carries the key, as the demo prints it."""
        self.page.goto(f"{self.service.url}/#key={self.service.key}")
        self.heading("Overview")

    def open(self, address: str, heading: str) -> None:
        """Go to an address of the signed-in page, such as `/fleet`."""
        self.page.evaluate("address => { location.hash = address }", address)
        self.heading(heading)

    def heading(self, text: str) -> None:
        """Wait for the view with this title."""
        expect(self.page.get_by_role("heading", level=1)).to_contain_text(text)

    def section(self, title: str) -> Locator:
        """The section under a heading."""
        heading = self.page.get_by_role("heading", level=2, name=title)
        return self.page.locator("section").filter(has=heading)

    def charts(self, place: Locator, count: int = 1) -> Locator:
        """What is drawn in a section: as somebody comes near."""
        frames = place.locator(".chart-frame")
        expect(frames).to_have_count(count)
        for frame in frames.all():
            self.come_near(frame)
        return place.locator("canvas")

    def come_near(self, place: Locator) -> None:
        """Scroll there at once: it may be drawn anew meanwhile."""
        place.evaluate("element => element.scrollIntoView({ block: 'center' })")

    def figure(self, label: str) -> Locator:
        """The value of a key figure."""
        figures = self.page.locator(".figure").filter(has=self.page.locator("dt", has_text=label))
        return figures.first.locator(".figure-value")

    def copy_command(self, of: str) -> str:
        """Press the copy button of a number or section; what is on the clipboard then."""
        button = self.page.get_by_role("button", name=f"Copy the command of {of}", exact=True)
        return self.copied(button.click)

    def copied(self, copy: Callable[[], object]) -> str:
        """What is on the clipboard once something was done that copies."""
        self.page.evaluate("navigator.clipboard.writeText('')")
        copy()
        # Not by the note that is shown: it goes away by itself, on a busy machine before it is looked for.
        found: str = self.page.wait_for_function("navigator.clipboard.readText()").json_value()
        return found

    def screenshot(self, name: str) -> None:
        """Save what the whole page looks like under web/test-results."""
        self.results.mkdir(exist_ok=True)
        # Charts that nobody has come near are drawn for print.
        self.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        self.page.screenshot(path=self.results / f"{name}.png", full_page=True)

    def accessibility_violations(self, rules: list[str] | None = None) -> list[str]:
        """What axe-core finds wrong once the view is there, by all of its rules and the size of targets, or by some."""
        self.page.locator("h1").first.wait_for()
        self.page.evaluate(self.axe)
        found = self.page.evaluate(
            "rules => axe.run(rules ? { runOnly: rules } : { rules: { 'target-size': { enabled: true } } })", rules
        )
        assert found["passes"], "axe has checked nothing"
        return [
            f"{violation['id']}: {violation['help']}: {node['html'][:200]}"
            for violation in found["violations"]
            for node in violation["nodes"]
        ]

    def is_wider_than_the_screen(self) -> bool:
        """Whether a person would have to scroll the page sideways, once all of it is drawn."""
        ends_at = time.monotonic() + FITS_SECONDS
        while self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            if time.monotonic() > ends_at:
                return True
            self.page.wait_for_timeout(50)
        return False
