"""What is emitted for each workload, as digests: to see that a change of the compiler changes no kernel and no plan.

    python -m benchmarks.kernels --json before.json             on the head to compare with
    python -m benchmarks.kernels --compare before.json          on the changed tree: status 1 where anything differs

Each workload is planned for this machine and for a Raspberry Pi 4, in f32 and in the narrow format of the table, with
the model's choices and, as tuning might choose, with the second best of every choice. A row has two digests: of all
kernels in the order of their calls, and of the plan: every value's place in memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.workloads import WORKLOADS
from pockengine.codegen.c import CBackend
from pockengine.codegen.common.identity import identity
from pockengine.codegen.tunable import Choice
from pockengine.compile import Planned, Request, plan_reduced, reduced
from pockengine.ir import Graph
from pockengine.plan.program import Program, Tasks
from pockengine.targets import Target, get

THREADS = 2
PI = "raspberry-pi-4"

Digests = dict[str, dict[str, str]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", nargs="+", default=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the digests into this file")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="the digests that are expected")
    options = parser.parse_args(arguments)
    expected: Digests = json.loads(options.compare.read_text()) if options.compare else {}
    found: Digests = {}
    for name in options.workload:
        for row, digests in digests_of(Case.named(name)):
            found[row] = digests
            print(row, *_compared(digests, expected.get(row)), sep="  ", flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return int(bool(options.compare) and any(expected.get(row) != digests for row, digests in found.items()))


def digests_of(case: Case) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of one workload: name -> digests of its kernels and its plan."""
    graph = graph_of(case)
    formats = dict.fromkeys(("f32", case.workload.compute))
    for target in (get("host"), get(PI)):
        for compute in formats:
            if target.name == PI and compute != "f32":
                continue  # it has no narrow format
            row = f"{case.workload.name} {target.name} {compute}"
            programs = reduced(_request(case, graph, target.computing(compute)))
            planned = plan_reduced(programs, CBackend())
            yield f"{row} model", _digests(planned.programs)
            yield f"{row} tuned", _digests(plan_reduced(programs, CBackend(_second_best(planned))).programs)


def _request(case: Case, graph: Graph, target: Target) -> Request:
    memory = None if case.workload.memory is None or target.name == PI else case.workload.memory << 20
    return Request(graph, recipe_of(case), target, THREADS, memory=memory)


def _second_best(planned: Planned) -> dict[str, Choice]:
    picks: dict[str, Choice] = {}
    for program in planned.programs.values():
        for step in program.steps:
            tunable = CBackend().tunable(step.node, planned.target, planned.threads)
            if tunable is not None and (key := identity(step.node)) not in picks:
                space = tunable.candidates()
                picks[key] = space[min(1, len(space) - 1)].choice
    return picks


def _digests(programs: Mapping[str, Program]) -> dict[str, str]:
    kernels, plan = hashlib.sha256(), hashlib.sha256()
    for kind, program in programs.items():
        for step in program.steps:
            for call in step.lowered.calls:
                kernels.update(call.kernel.source.encode())
                places = [program.locations[value] for value in call.operands]
                where = [f"{place.space}+{place.offset}" for place in places]
                parallel = call.launch == Tasks(parallel=True)
                plan.update(f"{kind} {call.kernel.symbol} {where} {step.workspace} {parallel}\n".encode())
    return {"kernels": kernels.hexdigest()[:16], "plan": plan.hexdigest()[:16]}


def _compared(found: Mapping[str, str], expected: Mapping[str, str] | None) -> list[str]:
    if expected is None:
        return list(found.values())
    return [f"{what} {'equal' if expected[what] == digest else 'DIFFERENT'}" for what, digest in found.items()]


if __name__ == "__main__":
    sys.exit(main())
