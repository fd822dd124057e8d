"""Our step as two heads compile it: whether the executables are equal, and both timed in turns.

    python -m benchmarks.heads OTHER_TREE [--workload NAME ...] [--rounds N]

OTHER_TREE is a checkout of the head to compare with. Each head compiles the workload in a process of its own; both
artifacts then run here, by turns, and must have the same losses. Status 1 where a step is more than 2 % slower.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pockengine as pock
from benchmarks.document import table
from benchmarks.peers.case import Case
from benchmarks.variants import parser_of, step_medians
from benchmarks.workloads import WORKLOADS

TOLERANCE = 1.02
THIS, OTHER = "this head", "the other"
HERE = Path(__file__).parents[1]

_COMPILE = """
import sys
import pockengine as pock
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
case, threads, path = Case.named(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
memory = None if case.workload.memory is None else case.workload.memory << 20
artifact = pock.compile(graph_of(case), recipe_of(case), target="host", threads=threads,
                        compute=case.workload.compute, memory=memory)
artifact.save(path)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__, [name for name, workload in WORKLOADS.items() if not workload.alone], rounds=10)
    parser.add_argument("tree", type=Path, metavar="OTHER_TREE", help="a checkout of the head to compare with")
    options = parser.parse_args(arguments)
    rows = []
    slower = False
    for name in options.workload:
        with tempfile.TemporaryDirectory(prefix="pock-heads-") as folder:
            artifacts = {
                head: _compiled(tree, name, options.threads, Path(folder) / f"{number}.pock")
                for number, (head, tree) in enumerate({OTHER: options.tree, THIS: HERE}.items())
            }
            equal = len({_executable(artifact) for artifact in artifacts.values()}) == 1
            ms = step_medians(Case.named(name), artifacts, options.rounds)
        ratio = ms[THIS] / ms[OTHER]
        slower |= ratio > TOLERANCE
        rows.append([name, "equal" if equal else "different", f"{ms[OTHER]:.2f}", f"{ms[THIS]:.2f}", f"{ratio:.3f}"])
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)
    print(table(["workload", "executables", f"{OTHER}, ms", f"{THIS}, ms", "ratio"], rows))
    return int(slower)


def _compiled(tree: Path, workload: str, threads: int, path: Path) -> pock.Artifact:
    """What the head in `tree` makes of the workload."""
    tree = tree.resolve()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(tree / part) for part in ("compiler", "."))}
    command = [sys.executable, "-c", _COMPILE, workload, str(threads), str(path)]
    subprocess.run(command, cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)
    return pock.Artifact.open(path)


def _executable(artifact: pock.Artifact) -> str:
    """Digest of the program that a device runs."""
    return sha256(artifact.read(artifact.manifest.entry_points.executable)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
