"""`python -m pock_server.aggregation FOLDER`: reads `task.json`, writes the weights and `outcome.json`."""

import resource
import sys
from pathlib import Path

from pock_server.aggregation.admission import admit
from pock_server.aggregation.arithmetic import take_step
from pock_server.aggregation.files import Weights
from pock_server.aggregation.task import MOMENTS, WEIGHTS, Outcome, Task, read_task, write_outcome
from pock_server.weights.making import make_delta
from pock_server.weights.restoring import is_delta, restore


def aggregate(folder: Path) -> None:
    """Do what `task.json` says. Where nothing counts, there are no new weights."""
    task = read_task(folder)
    current = _current(task, folder)
    members, rejected = admit(task, folder, current)
    norm = 0.0
    if members:
        whole = folder / "whole.safetensors"
        norm = take_step(task, folder, current, members, whole, folder / MOMENTS)
        make_delta(folder / task.base, whole, task.base_digest, folder / WEIGHTS)
    write_outcome(folder, Outcome(tuple(accepted for _, accepted in members), tuple(rejected), norm))


def _current(task: Task, folder: Path) -> Weights:
    base = folder / task.base
    if task.current is None:
        return Weights(base)
    path = folder / task.current
    if is_delta(path):
        given, path = path, folder / "current.safetensors"
        limit = 2 * base.stat().st_size
        restore(base, task.base_digest, given, path, everything=False, limit=limit + (64 << 20))
    return Weights(path, base)


def main() -> int:
    """The exit status."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    aggregate(Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
