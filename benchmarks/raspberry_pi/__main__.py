"""Estimates for the Raspberry Pi 4 and 5, made on any Linux machine with Debian's packages.

    python -m benchmarks.raspberry_pi [--write docs/performance.md] [--case TEXT ...]

Needs the packages qemu-user and llvm-19; those of the libraries we compare with are unpacked into .cache.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.document import write_section
from benchmarks.raspberry_pi.estimate import estimate
from benchmarks.raspberry_pi.libraries import LIBRARIES
from benchmarks.raspberry_pi.pipeline import PROCESSORS
from benchmarks.raspberry_pi.steps import CASES, measure
from benchmarks.raspberry_pi.tables import Result, report
from benchmarks.raspberry_pi.tools import MissingTool


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    wanted = [case for case in CASES if not options.case or any(part in case.title for part in options.case)]
    results = []
    try:
        for case in wanted:
            for processor in PROCESSORS:
                print(f"{case.title}, {processor.title}", file=sys.stderr, flush=True)
                step = measure(case, processor.target)
                counts = {name: count(step.products, processor) for name, count in LIBRARIES.items()}
                results.append(Result(case.title, estimate(step, processor), step.product_flops, counts))
    except MissingTool as missing:
        print(missing, file=sys.stderr)
        return 1
    text = report(results)
    print(text)
    if options.write:
        write_section(options.write, "raspberry-pi", text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", nargs="+", metavar="TEXT", help="only steps whose title has one of these texts")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="write the tables into this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
