"""How our time grows: the step over batches and threads, beside the quickest peers; compiling over the model's size.

    python -m benchmarks.scaling [--write docs/performance.md] [--rounds N] [--batch N ...] [--peer NAME ...]
                                 [--most-nodes N]

Compile times are those of a chain of layers of one shape with nothing cached, but for the C library of the target.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import pockengine as pock
from benchmarks.document import table, write_section
from benchmarks.peers.catalogue import OURS, PEERS
from benchmarks.peers.process import PeerProcess
from benchmarks.step_time import prepare
from benchmarks.workloads import workload_named
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter

WORKLOAD = "mobilenetv2-b{batch}-full"
BATCHES = (1, 2, 4, 8, 16, 32)
RIVALS = ("pytorch", "tensorflow")
TURN_MS = 300.0
LAYERS = (10, 30, 100, 300, 1000)
WIDTH = 16


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    tables = {}
    if options.batch:
        tables["scaling"] = _over_batches(options.rounds, options.batch, options.peer)
        print(tables["scaling"], flush=True)
    tables["compile-time"] = _over_nodes(options.most_nodes)
    print(tables["compile-time"], flush=True)
    for name, text in tables.items() if options.write else ():
        write_section(options.write, name, text)
    return 0


def _over_batches(rounds: int, batches: Sequence[int], rivals: Sequence[str]) -> str:
    rows = []
    for batch in batches:
        workload = workload_named(WORKLOAD.format(batch=batch))
        prepare(workload)
        medians = {threads: _medians(workload.name, threads, rounds, (*rivals, OURS)) for threads in (1, 2)}
        best = {threads: min(medians[threads][name] for name in rivals) for threads in medians}
        rows.append(
            [
                str(batch),
                *(f"{medians[threads][name]:.1f}" for threads in medians for name in (*rivals, OURS)),
                *(f"{medians[threads][OURS] / best[threads]:.2f}" for threads in medians),
                f"{medians[1][OURS] / medians[2][OURS]:.2f}x",
                f"{medians[2][OURS] / batch:.1f}",
            ]
        )
    titles = [PEERS[name].title for name in (*rivals, OURS)]
    head = [
        "batch",
        *(f"{title}, {count}" for count in ("1 thread", "2 threads") for title in titles),
        "ours / best, 1 thread",
        "ours / best, 2 threads",
        "ours, 2 threads over 1",
        "ours, ms an image",
    ]
    return f"MobileNetV2 224, full, median milliseconds of a step:\n\n{table(head, rows)}"


def _medians(name: str, threads: int, rounds: int, contenders: Sequence[str]) -> dict[str, float]:
    with ExitStack() as stack:
        workload = workload_named(name)
        field = {one: stack.enter_context(PeerProcess(one, workload, threads)) for one in contenders}
        samples: dict[str, list[float]] = {one: [] for one in field}
        for turn in range(rounds):
            for one in field if turn % 2 == 0 else reversed(field):
                samples[one] += field[one].turn(TURN_MS)
    return {one: statistics.median(taken) for one, taken in samples.items()}


def _over_nodes(most: int) -> str:
    recipe = pock.Recipe(loss="mse", optimizer={"name": "sgd", "lr": 1e-3}, batch=WIDTH)
    with tempfile.TemporaryDirectory(prefix="pock-scaling-") as folder:
        pock.compile(_chain(1), recipe, cache=Path(folder) / "first")  # imports, and the C library of the target
        points: list[tuple[int, float]] = []
        for layers in LAYERS:
            start = time.perf_counter()
            summary = pock.compile(_chain(layers), recipe, cache=Path(folder) / str(layers)).summary
            seconds = time.perf_counter() - start
            points.append((summary["nodes_forward"] + summary["nodes_backward"], seconds))
            print(f"{points[-1][0]} nodes: {seconds:.1f} s", file=sys.stderr)
            if points[-1][0] >= most:
                break
    slope, intercept, share = _line(points)
    rows = [[str(nodes), f"{seconds:.2f}", f"{1e3 * seconds / nodes:.2f}"] for nodes, seconds in points]
    fit = f"{intercept:.1f} s + {1e3 * slope:.2f} ms a node, which explains {share:.1%} of the variance."
    return f"{table(['nodes of the training step', 'seconds', 'ms a node'], rows)}\n\nLeast squares: {fit}"


def _line(points: Sequence[tuple[int, float]]) -> tuple[float, float, float]:
    """Slope and intercept of the least-squares line, and the coefficient of determination."""
    nodes, seconds = (np.array(column, np.float64) for column in zip(*points, strict=True))
    slope, intercept = np.polyfit(nodes, seconds, 1)
    left = seconds - (slope * nodes + intercept)
    return float(slope), float(intercept), float(1 - left @ left / np.sum((seconds - seconds.mean()) ** 2))


def _chain(layers: int) -> Graph:
    """`layers` times x = x + tanh(x W + b) on f32[16, 16]."""
    builder = Builder("chain")
    e, chance = Emitter(builder), np.random.default_rng(0)
    x = builder.input("x", TensorType(DType.F32, (WIDTH, WIDTH)))
    for index in range(layers):
        arrays = {"weight": (WIDTH, WIDTH), "bias": (WIDTH,)}
        weight, bias = (
            builder.param(
                f"layer.{index}.{name}",
                TensorType(DType.F32, shape),
                0.1 * chance.standard_normal(shape, dtype=np.float32),
            )
            for name, shape in arrays.items()
        )
        x = e.add(x, e.op("tanh", e.add(e.matmul(x, weight), bias)))
    builder.outputs = {"output": x}
    return builder.finish()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender (default: %(default)s)")
    parser.add_argument(
        "--most-nodes", type=int, default=10_000, help="stop at this size or above (default: %(default)s)"
    )
    parser.add_argument("--batch", type=int, nargs="*", default=list(BATCHES), help="none: compile times only")
    parser.add_argument(
        "--peer",
        nargs="+",
        choices=[name for name in PEERS if name != OURS],
        default=list(RIVALS),
        help="(default: %(default)s)",
    )
    parser.add_argument("--write", type=Path, metavar="DOCUMENT", help="write the tables into this Markdown file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
