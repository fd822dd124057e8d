"""Time of one training step, ours against PyTorch eager and torch.compile, interleaved in one process.

    python -m benchmarks.step_time [--json OUT.json] [--cases full-1,last-8-blocks-8] [--rounds 10] [--threads 2]

MobileNetV2 at 224 x 224, 1000 classes, SGD with momentum, batch norm frozen (evaluation mode) for everyone. The
contenders take turns; each turn has one step that is not counted, so that nobody pays for another's cold caches or
spinning threads. The first losses must agree, otherwise the comparison stops. Peak memory comes from a process of each
contender's own.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import contenders
from benchmarks.contenders import OURS, PEERS, Contender
from benchmarks.workload import CASES, Case

AGREEMENT_STEPS = 3
AGREEMENT = 1e-3
WARM_STEPS = 3
STEPS_PER_TURN = 3
MEMORY_STEPS = 3

console = Console(stderr=True)


@dataclass(frozen=True)
class Row:
    """One contender on one case. Times in milliseconds, memory in bytes."""

    case: str
    contender: str
    median_ms: float
    p10_ms: float
    p90_ms: float
    peak_rss_bytes: int | None
    first_losses: list[float]
    flops: int | None = None
    peak_fraction: float | None = None
    speedup: float | None = None
    """The best peer's median divided by ours; above 1 we are faster."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; exit code 1 when the losses disagree."""
    options = _parser().parse_args(arguments)
    if options.memory_of:
        print(json.dumps({"peak_rss_bytes": peak_memory(options.memory_of, _case(options.cases), options.threads)}))
        return 0
    names = tuple(options.contenders.split(","))
    cases = [case for case in CASES if options.cases in ("", _key(case)) or _key(case) in options.cases.split(",")]
    torch.set_num_threads(options.threads)
    matmul_peak = 0.0
    rows: list[Row] = []
    for case in cases:
        # Measured again and again and the best taken: a peak that a busy moment lowered would flatter us.
        matmul_peak = max(matmul_peak, measured_matmul_peak())
        rows += compare(case, names, options.rounds, options.threads)
        contenders.release()
    rows = [with_peak_fraction(row, matmul_peak) for row in rows]
    Console(width=150).print(_table(rows))
    console.print(f"fp32 matrix multiply: {matmul_peak / 1e9:.0f} GFLOP/s on {options.threads} threads")
    if options.json:
        document = {"machine": _machine(options.threads, matmul_peak), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def compare(case: Case, names: Sequence[str], rounds: int, threads: int) -> list[Row]:
    """Build every contender, check that they train alike, then time them in turns."""
    field = []
    for name in names:
        start = time.perf_counter()
        with console.status(f"{case}: preparing {name}"):
            contender = contenders.make(name, case, threads)
            losses = [contender.step() for _ in range(AGREEMENT_STEPS)]
            field.append((contender, losses))
        console.print(f"{case}: {name} is ready after {time.perf_counter() - start:.1f} s")
    _demand_agreement(case, field)
    samples = interleaved([contender for contender, _ in field], rounds, str(case))
    memory = {name: _memory_in_own_process(name, case, threads) for name in names}
    best_peer = min((statistics.median(samples[name]) for name in names if name != OURS), default=None)
    flops = next((_flops(contender) for contender, _ in field if contender.name == OURS), None)
    row = partial(_row, case, flops=flops, best_peer=best_peer)
    return [row(one, losses, samples[one.name], memory[one.name]) for one, losses in field]


def with_peak_fraction(row: Row, matmul_peak: float) -> Row:
    """The row with the share of `matmul_peak` (FLOP/s) that its operations per second are."""
    if row.flops is None:
        return row
    return replace(row, peak_fraction=row.flops / (row.median_ms / 1e3) / matmul_peak)


def interleaved(field: Sequence[Contender], rounds: int, title: str) -> dict[str, list[float]]:
    """Milliseconds of each counted step, by contender; the order of the turns alternates from round to round."""
    samples: dict[str, list[float]] = {contender.name: [] for contender in field}
    for contender in field:
        for _ in range(WARM_STEPS):
            contender.step()
    for turn in range(rounds):
        with console.status(f"{title}: round {turn + 1} of {rounds}"):
            for contender in field if turn % 2 == 0 else reversed(field):
                contender.step()
                for _ in range(STEPS_PER_TURN):
                    start = time.perf_counter()
                    contender.step()
                    samples[contender.name].append(1e3 * (time.perf_counter() - start))
    return samples


def measured_matmul_peak(side: int = 2048, tries: int = 8) -> float:
    """The best rate in FLOP/s at which PyTorch multiplies square fp32 matrices here."""
    left, right = torch.randn(side, side), torch.randn(side, side)
    torch.mm(left, right)
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        torch.mm(left, right)
        times.append(time.perf_counter() - start)
    return float(2 * side**3 / min(times))


def peak_memory(name: str, case: Case, threads: int) -> int:
    """Peak resident bytes of training `case`: of this process for a peer, of the executable for us."""
    contender = contenders.make(name, case, threads)
    if name == OURS:
        return int(contenders.executable_report(contender, MEMORY_STEPS, threads)["peak_rss_bytes"])
    for _ in range(MEMORY_STEPS):
        contender.step()
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def _memory_in_own_process(name: str, case: Case, threads: int) -> int | None:
    with console.status(f"{case}: peak memory of {name}"):
        command = [sys.executable, "-m", "benchmarks.step_time", "--memory-of", name, "--cases", _key(case)]
        done = subprocess.run([*command, "--threads", str(threads)], capture_output=True, text=True, check=False)
    if done.returncode:
        console.print(f"{case}: no peak memory of {name}: {done.stderr.strip().splitlines()[-1:]}")
        return None
    return int(json.loads(done.stdout.splitlines()[-1])["peak_rss_bytes"])


def _demand_agreement(case: Case, field: Sequence[tuple[Contender, list[float]]]) -> None:
    reference_name, reference = field[0][0].name, field[0][1]
    for contender, losses in field[1:]:
        apart = max(abs(a - b) / abs(a) for a, b in zip(reference, losses, strict=True))
        if apart > AGREEMENT:
            sys.exit(
                f"{case}: {contender.name} has the losses {losses}, {reference_name} has {reference}: not the same work"
            )


def _flops(contender: Contender) -> int:
    return int(sum(contender.facts["summary"]["flops"].values()))


def _row(
    case: Case,
    contender: Contender,
    losses: list[float],
    samples: list[float],
    memory: int | None,
    flops: int | None,
    best_peer: float | None,
) -> Row:
    median = statistics.median(samples)
    deciles = statistics.quantiles(samples, n=10)
    return Row(
        case=str(case),
        contender=contender.name,
        median_ms=median,
        p10_ms=deciles[0],
        p90_ms=deciles[-1],
        peak_rss_bytes=memory,
        first_losses=losses,
        flops=flops,
        speedup=best_peer / median if contender.name == OURS and best_peer else None,
    )


def _table(rows: Sequence[Row]) -> Table:
    table = Table(title="One training step of MobileNetV2, 224 x 224, SGD with momentum, batch norm frozen")
    table.add_column("case")
    table.add_column("contender")
    for title in (
        "median",
        "p10",
        "p90",
        "best peer / ours",
        "peak RSS",
        "GFLOP",
        "share of matmul peak",
        "first loss",
    ):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            row.case,
            row.contender,
            f"{row.median_ms:.1f} ms",
            f"{row.p10_ms:.1f}",
            f"{row.p90_ms:.1f}",
            f"{row.speedup:.2f}" if row.speedup else "",
            f"{row.peak_rss_bytes / 2**20:.0f} MiB" if row.peak_rss_bytes else "",
            f"{row.flops / 1e9:.2f}" if row.flops else "",
            f"{row.peak_fraction:.0%}" if row.peak_fraction else "",
            f"{row.first_losses[0]:.5f}",
        )
    return table


def _machine(threads: int, matmul_peak: float) -> dict[str, Any]:
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cpu": models[0].split(":", 1)[1].strip() if models else platform.processor(),
        "threads": threads,
        "matmul_flops_per_second": matmul_peak,
        "torch": torch.__version__,
    }


def _key(case: Case) -> str:
    return f"{case.scheme}-{case.batch}"


def _case(key: str) -> Case:
    return next(case for case in CASES if _key(case) == key)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to FILE")
    parser.add_argument("--cases", default="", help=f"of {', '.join(map(_key, CASES))}; comma-separated, default all")
    parser.add_argument("--contenders", default=",".join((*PEERS, OURS)), help="comma-separated (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each contender (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each contender (default: %(default)s)")
    parser.add_argument(
        "--memory-of", metavar="CONTENDER", help="only run this one and print its process's peak memory"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
