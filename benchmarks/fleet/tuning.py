"""What a fleet's choices are worth on this machine: steps by the model, by local tuning and by the fleet, in turns.

    python -m benchmarks.fleet.tuning [--workload NAME ...] [--devices 2] [--rounds 30] [--write docs/performance.md]

Starts the service and agents on this machine, has it build the workload twice with `--tune fleet` (cold, and once
devices have tried what was unknown) and tunes it here with `--tune fast` and an empty cache. The exit status is 1 where
the fleet's step takes more than 3 % longer than the locally tuned one. Nothing else may run meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pockengine as pock
from benchmarks.document import table, write_section
from benchmarks.peers.case import Case
from benchmarks.peers.prepare import graph_of, recipe_of
from benchmarks.variants import parser_of, step_medians
from demo import fleet
from demo.service import serving
from pock_client import Client
from pockengine.codegen.onnx import graph_to_onnx

DEFAULT = ("mcunet-b1-sparse",)
HEAD = ("step", "workloads", "decided", "searched", "model, ms", "fast, ms", "fleet, ms", "fleet / fast")
TOLERANCE = 1.03
PATIENCE_SECONDS = 60
_LOOK_SECONDS = 1.0
_OVER = ("succeeded", "failed", "cancelled")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__, DEFAULT, rounds=30)
    parser.add_argument("--devices", type=int, default=2, help="agents that try kernels (default: %(default)s)")
    options = parser.parse_args(arguments)
    rows = [_row(Case.named(name), options) for name in options.workload]
    print(table(HEAD, rows))
    if options.write:
        write_section(options.write, "fleet tuning", table(HEAD, rows))
    return int(any(float(row[-1].rstrip("x")) > TOLERANCE for row in rows))


def _row(case: Case, options: Any) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="pock-fleet-tuning-") as folder:
        place = Path(folder)
        graph, recipe = graph_of(case), recipe_of(case)
        (model,) = graph_to_onnx(graph).save(place / "model.onnx")
        artifact, job, seconds = _by_fleet(model, recipe, options, place)
        local = {
            tune: pock.compile(graph, recipe, threads=options.threads, tune=tune, cache=place / tune)
            for tune in ("off", "fast")
        }
        medians = step_medians(case, {**local, "fleet": artifact}, options.rounds)
    return [
        case.workload.title,
        str(artifact.manifest.summary["schedules_by_model"] + len(artifact.manifest.summary["schedules"])),
        str(job.decided),
        f"{seconds:.0f} s",
        *(f"{medians[name]:.2f}" for name in ("off", "fast", "fleet")),
        f"{medians['fleet'] / medians['fast']:.3f}x",
    ]


def _by_fleet(file: Path, recipe: pock.Recipe, options: Any, place: Path) -> tuple[pock.Artifact, Any, float]:
    """The artifact of the build after the search, the search, and how long it took."""
    with _settings(), serving(place / "service") as address, Client(address.url, address.key) as client:
        model = client.models.push(file)
        order = {"model": model, "recipe": recipe.to_mapping(), "target": "host", "threads": options.threads}
        cold = client.builds.wait(client.builds.create(**order, tune="fleet").id)
        names = [f"device-{number}" for number in range(options.devices)]
        agents = tuple(fleet.Device(name, "host", place / name) for name in names)
        for agent in agents:
            fleet.enroll(agent, address.url, client)
        start = time.monotonic()
        with fleet.agents_running(agents):
            job = _searched(client, cold.id)
        seconds = time.monotonic() - start
        tuned = client.builds.wait(client.builds.create(**order, tune="fleet").id)
        client.artifacts.download(tuned, place / "tuned.pock")
    return pock.Artifact.open(place / "tuned.pock"), job, seconds


@contextlib.contextmanager
def _settings() -> Iterator[None]:
    """Of the service: one device measures at a time, as all of them are this machine."""
    wanted = {"POCK_TUNING_PARALLEL": "1", "POCK_TUNING_PATIENCE_SECONDS": str(PATIENCE_SECONDS)}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            del os.environ[name]


def _searched(client: Client, build_id: str) -> Any:
    while True:
        (job,) = client.tuning.jobs(build_id=build_id)
        if job.state in _OVER:
            return job
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
