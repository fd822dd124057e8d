"""Time and memory of one training step, ours against other frameworks, in interleaved turns.

    python -m benchmarks.step_time [--workload NAME ...] [--peer NAME ...] [--rounds N] [--json OUT] [--write DOC]

Each contender is a process in an environment of its own, made on first use from the pinned requirements in
benchmarks/peers. They take turns; each turn has one step that is not counted, and whoever is not on turn is stopped, so
that nobody pays for another's cold caches or spinning threads. All start from the same weights, and the losses of their
first two steps must agree, otherwise the contender is left out with the reason. `--json` keeps figures of workloads
that are not measured this time; `--write` puts the tables into the document.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.document import load_figures, machine, save_figures
from benchmarks.own_peak import own_matrix_product_rate
from benchmarks.peers.catalogue import OURS, PEERS, competing
from benchmarks.peers.process import PeerError, PeerProcess
from benchmarks.step_time_tables import show, sparse_figures, write
from benchmarks.workloads import WORKLOADS, Workload

ROUNDS = 6
TURN_MS = 400.0
LONG_TURN_MS = 15000.0
"""Of a workload whose contenders run alone."""
AGREEING_STEPS = 2
AGREEMENT = 1e-3
ROUNDED_AGREEMENT = 1e-2
"""Where our frozen weights are rounded, or operands of products to bf16: each by up to 2^-9."""

Figures = dict[str, Any]

console = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write JSON and document; exit code 1 when we could not be measured on a workload."""
    options = _parser().parse_args(arguments)
    names = options.workload or [name for name, workload in WORKLOADS.items() if not workload.alone]
    figures = load_figures(options.json) or {"workloads": {}}
    figures["machine"] = machine(options.threads)
    if OURS in options.peer:
        figures["machine"]["own_peak_flops_per_second"] = own_matrix_product_rate(options.threads)
    failed = False
    for name in names:
        measured = measure(WORKLOADS[name], options.peer, options.rounds, options.threads)
        failed |= "ms" not in measured["contenders"].get(OURS, {"ms": None})
        figures["workloads"][name] = measured
        figures["sparse"] = sparse_figures(figures["workloads"])
        if options.json:  # after each workload: a run of many minutes may be interrupted
            save_figures(options.json, figures)
    show({name: figures["workloads"][name] for name in names})
    if options.write:
        write(options.write, figures)
    return int(failed)


def measure(workload: Workload, names: Sequence[str], rounds: int, threads: int) -> Figures:
    """Every contender's figures on one workload, `{"error": reason}` for those that cannot run it."""
    names = [name for name in names if name in competing(workload.compute)]
    console.rule(workload.title)
    prepare(workload)
    contenders: dict[str, Figures] = {}
    run = _in_fresh_processes if workload.alone else _side_by_side
    run(workload, names, rounds, threads, contenders)
    peak = max((c.get("peak_flops_per_second", 0.0) for c in contenders.values()), default=0.0)
    return {"title": workload.title, "contenders": contenders, "matmul_flops_per_second": peak, "rounds": rounds}


def _side_by_side(
    workload: Workload, names: Sequence[str], rounds: int, threads: int, contenders: dict[str, Figures]
) -> None:
    """All processes at once, stopped but for their turns."""
    with ExitStack() as stack:
        field: dict[str, PeerProcess] = {}
        for name in names:
            process = _start(name, workload, threads, contenders)
            if process is not None:
                field[name] = stack.enter_context(process)
        samples: dict[str, list[float]] = {name: [] for name in field}
        for turn in range(rounds):
            with console.status(f"round {turn + 1} of {rounds}"):
                for name in field if turn % 2 == 0 else reversed(field):
                    samples[name] += field[name].turn(TURN_MS)
        for name, process in field.items():
            contenders[name] |= {"ms": _spread(samples[name])} | process.memory()


def _in_fresh_processes(
    workload: Workload, names: Sequence[str], rounds: int, threads: int, contenders: dict[str, Figures]
) -> None:
    """One process at a time, each turn a new one; the first also tells the memory."""
    samples: dict[str, list[float]] = {name: [] for name in names}
    memory: dict[str, dict[str, int]] = {}
    for turn in range(rounds):
        for name in names if turn % 2 == 0 else reversed(names):
            if "error" in contenders.get(name, {}):
                continue
            process = _start(name, workload, threads, contenders)
            if process is not None:
                with process:
                    samples[name] += process.turn(LONG_TURN_MS)
                    if turn == 0:
                        memory[name] = process.memory()
                    contenders[name] |= {"ms": _spread(samples[name])} | memory[name]


def _start(name: str, workload: Workload, threads: int, contenders: dict[str, Figures]) -> PeerProcess | None:
    """The contender's process, warm; None, with the reason among the figures, where it cannot train the same."""
    try:
        with console.status(f"{name} prepares"):
            process = PeerProcess(name, workload, threads)
    except PeerError as error:
        console.print(f"{name}: {error}; its log is in .cache/peers/logs")
        contenders[name] = {"error": str(error)}
        return None
    contenders[name] = process.ready
    console.print(f"{name}: ready after {process.ready['ready_seconds']:.1f} s, losses {process.ready['losses']}")
    rounds = workload.frozen or workload.compute != "f32"
    reason = _disagreement(contenders, name, ROUNDED_AGREEMENT if rounds else AGREEMENT)
    if reason is None:
        return process
    console.print(f"{name}: {reason}")
    contenders[name]["error"] = reason
    process.close()
    return None


def _disagreement(contenders: Mapping[str, Figures], name: str, allowed: float) -> str | None:
    """How a contender's training differs from that of the first one, if it does."""
    reference = next(figures for figures in contenders.values() if "error" not in figures)
    figures = contenders[name]
    if figures["trained"] != reference["trained"]:
        return f"it trains {figures['trained']} numbers instead of {reference['trained']}"
    pairs = list(zip(reference["losses"], figures["losses"], strict=True))[:AGREEING_STEPS]
    if all(abs(a - b) <= allowed * abs(a) for a, b in pairs):
        return None
    return f"its losses {figures['losses'][:AGREEING_STEPS]} are not {reference['losses'][:AGREEING_STEPS]}"


def _spread(samples: Sequence[float]) -> Figures:
    deciles = statistics.quantiles(samples, n=10, method="inclusive") if len(samples) > 1 else [samples[0]]
    return {"median": statistics.median(samples), "p10": deciles[0], "p90": deciles[-1], "samples": len(samples)}


def prepare(workload: Workload) -> None:
    """In a process of its own, which gives back the memory that exporting takes."""
    with console.status("writing the shared weights"):
        command = [sys.executable, "-m", "benchmarks.peers.prepare", workload.name]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{workload.name} cannot be prepared: {done.stderr.strip().splitlines()[-1]}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workload", nargs="+", choices=WORKLOADS, metavar="NAME",
        help=f"of {', '.join(WORKLOADS)} (default: all that fit in memory side by side)",
    )  # fmt: skip
    parser.add_argument(
        "--peer", nargs="+", choices=PEERS, default=list(PEERS), metavar="NAME",
        help=f"of {', '.join(PEERS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each contender (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every figure in FILE")
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="write the tables into this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
