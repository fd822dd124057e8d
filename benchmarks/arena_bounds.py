"""How far each workload's arena lies above what no order of its nodes could go below.

    python -m benchmarks.arena_bounds [--workload NAME ...] [--write docs/memory.md]

While a node runs, in whatever order, its operands, results and scratch memory are alive, and so is every value that was
made by a node it depends on and is read by a node that depends on it. The most of these bytes over all nodes is a lower
bound for every schedule, and so for every plan; it need not be reachable. Where the search for an order goes through
all orders that could keep to a limit and finds none, that limit is a bound too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.document import mib, table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.variants import parser_of
from benchmarks.workloads import WORKLOADS
from pockengine.compile import Request, Scope, plan_programs
from pockengine.plan.lives import work_of
from pockengine.plan.peak_order import forced_bytes, lowest_order, waits_of
from pockengine.plan.program import Program
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
        planned = plan_programs(Request(graph_of(case), recipe_of(case), target, options.threads, scope=Scope.TRAINING))
        rows.append([case.workload.title, *_figures(planned.programs["train"], planned.spaces.alignment)])
        print(table(HEAD, rows), flush=True)
    if options.write:
        write_section(options.write, "bounds", table(HEAD, rows))
    return 0


def _figures(program: Program, alignment: int) -> list[str]:
    lowered = {step.node: step.lowered for step in program.steps}
    work = work_of(program.graph, lambda node: lowered[node], alignment)
    waits = waits_of(program.graph, work.nodes)
    forced = forced_bytes(work, waits)
    arena, bound = program.plan.arena_bytes, lowest_order(work, waits).bound
    node = work.nodes[forced.index(max(forced))]
    return [
        mib(arena),
        mib(program.plan.lower_bound_bytes),
        mib(bound),
        f"{arena / bound - 1:.1%}",
        f"{node.origin or node.outputs[0].name} ({node.phase})",
    ]


if __name__ == "__main__":
    sys.exit(main())
