"""How light the dashboard is, in a real Chromium against the real service.

    python -m benchmarks.page [--devices 10000] [--steps 100000] [--json FILE] [--write docs/dashboard.md]

Exit status 1 when a figure is above what is asked for. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.document import machine, save_figures, table, write_section
from benchmarks.page import looks, picker
from benchmarks.page.looks import Figure
from benchmarks.page.stand import browser, built_page, compiling_service, service_with

FEW = 1000
BLOCKS = 840
"""Of a network of about 5,000 nodes."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all of it."""
    options = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="pock-page-") as folder:
        figures = measure(built_page(Path(folder)), options.devices, options.steps)
    if options.json:
        save_figures(options.json, {"machine": machine(1), "figures": [asdict(figure) for figure in figures]})
    if options.write:
        write_section(options.write, "page", summary(figures))
    return 0 if all(figure.good for figure in figures) else 1


def measure(dist: Path, devices: int, steps: int) -> list[Figure]:
    """Every figure; each is printed as it comes."""
    found: list[Figure] = []

    def take(look: looks.Look) -> None:
        for figure in look():
            found.append(figure)
            print(_line(figure), flush=True)

    with browser() as running:
        with service_with(dist, min(FEW, devices)) as service:
            model, dataset = service.add_model("net"), service.add_dataset("digits", 24)
            build = service.wait_for_build(service.request_build(model, "net-sparse"), "succeeded")
            run = looks.long_run(service, build, dataset, steps)
            take(lambda: looks.first_load(running, service))
            take(lambda: looks.first_view(running, service, min(FEW, devices)))
            take(lambda: looks.idle(running, service, min(FEW, devices)))
            take(lambda: looks.curve_pans(running, service, run, steps))
            take(lambda: looks.live_run(running, service, build, dataset))
        with service_with(dist, devices) as service:
            take(lambda: looks.fleet_scrolls(running, service, devices))
        with compiling_service(dist) as service:
            take(lambda: looks.graph_zooms(running, service, BLOCKS))
            take(lambda: picker.estimates(running, service))
    return found


def summary(figures: Sequence[Figure]) -> str:
    """A table in Markdown."""
    return table(
        ["what", "measured", "asked for"],
        [[one.name, f"{_number(one.value)} {one.unit}", f"≤ {one.most:g} {one.unit}"] for one in figures],
    )


def _line(figure: Figure) -> str:
    mark = " " if figure.good else "!"
    return f"{mark} {figure.name:<58} {_number(figure.value):>8} {figure.unit:<5} at most {figure.most:g}"


def _number(value: float) -> str:
    """Three digits, and all of those before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="keep the figures here")
    parser.add_argument("--write", type=Path, help="the document whose section is rewritten")
    return parser


if __name__ == "__main__":
    sys.exit(main())
