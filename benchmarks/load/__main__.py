"""Load on each deployment: latencies, errors, runs done exactly once, memory over time.

    python -m benchmarks.load [--deployment sqlite …] [--agents 100 1000 3000] [--processes 1 2 3] [--seconds 600]
                              [--runs-per-minute 100] [--json FILE] [--write docs/load.md]

The service has one core of this machine to itself and the load another one: nothing else should run.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.document import load_figures, machine, save_figures, write_section
from benchmarks.load.deployments import DEPLOYMENTS
from benchmarks.load.measure import Plan, measure
from benchmarks.load.processes import LOAD_CORE
from benchmarks.load.report import needs, summary


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what was asked for; exit status 1 if a call failed or a run was not done exactly once."""
    options = _parser().parse_args(arguments)
    os.sched_setaffinity(0, {LOAD_CORE})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.freeze()
    gc.set_threshold(50_000, 20, 500)  # the load's own pauses would be taken for the service's
    figures = load_figures(options.json)
    results = figures.setdefault("results", {})
    figures["machine"] = machine(1)
    good = True
    for name in options.deployment:
        for processes in options.processes if name != "sqlite" else [1]:
            for agents in options.agents:
                plan = Plan(agents, options.seconds, options.runs_per_minute, options.watchers)
                with tempfile.TemporaryDirectory(prefix="pock-load-") as folder:
                    Path(folder).chmod(0o755)  # the database server runs as another user
                    with DEPLOYMENTS[name](Path(folder), processes) as deployment:
                        result = asyncio.run(measure(deployment, plan))
                row = f"{name}, {processes} API, {agents} agents, {options.seconds:.0f} s"
                results[row] = asdict(result)
                if options.json:
                    save_figures(options.json, figures)
                runs = result.runs
                good &= not result.errors and runs["done once"] == runs["submitted"] and not runs["not succeeded"]
                print(summary({row: asdict(result)}), flush=True)
    if options.write:
        write_section(options.write, "load", summary(results))
        write_section(options.write, "needs", needs(results))
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deployment", nargs="+", choices=sorted(DEPLOYMENTS), default=sorted(DEPLOYMENTS))
    parser.add_argument("--agents", nargs="+", type=int, default=[100, 1000, 3000])
    parser.add_argument("--processes", nargs="+", type=int, default=[1], help="API processes of the scaled deployment")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--runs-per-minute", type=float, default=100)
    parser.add_argument("--watchers", type=int, default=5, help="people who follow runs as they go")
    parser.add_argument("--json", type=Path, help="keep the figures here; those there already stay")
    parser.add_argument("--write", type=Path, help="the document whose sections are rewritten")
    return parser


if __name__ == "__main__":
    sys.exit(main())
