"""How far each workload's arena lies above what no order of its nodes could go below.

    python -m benchmarks.arena_bounds [--workload NAME ...] [--write docs/memory.md]

While a node runs, in whatever order, its operands, results and scratch memory are alive, and so is every value that was
made by a node it depends on and is read by a node that depends on it. The most of these bytes over all nodes is a lower
bound for every schedule, and so for every plan; it need not be reachable.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.document import mib, table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.variants import parser_of
from benchmarks.workloads import WORKLOADS
from pockengine.codegen.backend import Program
from pockengine.compile import plan_programs
from pockengine.compile.lifetimes import Operation, work_of
from pockengine.targets import get

HEAD = (
    "step",
    "arena, MiB",
    "its schedule's bound",
    "every schedule's bound",
    "arena above the latter",
    "the node there",
)


def main(arguments: Sequence[str] | None = None) -> int:
    names = [name for name, workload in WORKLOADS.items() if not workload.alone]
    options = parser_of(__doc__, names).parse_args(arguments)
    rows = []
    for name in options.workload:
        case = Case.named(name)
        target = get("host").computing(case.workload.compute)
        planned = plan_programs(graph_of(case), recipe_of(case), target, options.threads, only_training=True)
        rows.append([case.workload.title, *_figures(planned.programs["train"])])
        print(table(HEAD, rows), flush=True)
    if options.write:
        write_section(options.write, "bounds", table(HEAD, rows))
    return 0


def _figures(program: Program) -> list[str]:
    lowered = {step.node: step.lowered for step in program.steps}
    work = work_of(program.graph, lambda node: lowered[node])
    forced = forced_bytes(work.operations, work.sizes, work.kept)
    arena, bound = program.plan.arena_bytes, max(forced)
    node = work.nodes[forced.index(bound)]
    return [
        mib(arena),
        mib(program.plan.lower_bound_bytes),
        mib(bound),
        f"{arena / bound - 1:.1%}",
        f"{node.origin or node.outputs[0].name} ({node.phase})",
    ]


def forced_bytes(operations: Sequence[Operation], sizes: Sequence[int], kept: Sequence[int]) -> list[int]:
    """Bytes of the arena that are alive while each operation runs, in whatever order the operations run."""
    maker = {value: step for step, operation in enumerate(operations) for value in operation.writes}
    before, after = _reached(operations, maker)
    readers: dict[int, int] = dict.fromkeys(kept, 1 << len(operations))
    for step, operation in enumerate(operations):
        for value in operation.reads:
            readers[value] = readers.get(value, 0) | 1 << step
    forced = []
    for step, operation in enumerate(operations):
        own = set(operation.reads) | set(operation.writes)
        later = after[step] | 1 << len(operations)
        others = (v for v, at in maker.items() if before[step] >> at & 1 and readers.get(v, 0) & later and v not in own)
        shared = sum({new: min(sizes[old], sizes[new]) for old, new in operation.over}.values())
        forced.append(sum(sizes[v] for v in (*own, *others)) - shared + operation.workspace)
    return forced


def _reached(operations: Sequence[Operation], maker: dict[int, int]) -> tuple[list[int], list[int]]:
    """For each operation, as bits: those that it depends on, and those that depend on it."""
    before, after = [0] * len(operations), [0] * len(operations)
    for step, operation in enumerate(operations):
        for made in {maker[value] for value in operation.reads}:
            before[step] |= before[made] | 1 << made
    for step in reversed(range(len(operations))):
        for made in {maker[value] for value in operations[step].reads}:
            after[made] |= after[step] | 1 << step
    return before, after


if __name__ == "__main__":
    sys.exit(main())
