"""Runs both sides in turns and prints a table. It takes all cores: run it on a quiet machine."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.federated.data import write_data
from benchmarks.federated.liar import Lie
from benchmarks.federated.ours import rounds, serving
from benchmarks.federated.scene import Plan
from benchmarks.peers.environments import CACHE, ROOT, python_of

Result = Mapping[str, Any]
_SIDES = ("PockEngine", "PockEngine, service killed in round 2", "PockEngine, devices that lie", "Flower")


def flower(folder: Path) -> Result:
    """Flower's result on the data of `folder`."""
    command = [str(python_of("flower")), "-m", "benchmarks.federated.flower", str(folder)]
    quiet = {**os.environ, "FLWR_TELEMETRY_ENABLED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Flower failed:\n{done.stderr[-4000:]}")
    found: Result = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(plan: Plan, with_flower: bool) -> dict[str, Result]:
    """All sides on the data of one seed, each with processes of its own."""
    lies = tuple(Lie)[: max(1, plan.agents // 5)]  # of few agents one: three could not be told from the others
    found: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="pock-federated-") as name:
        folder = Path(name)
        write_data(folder, plan)
        plan.save(folder)
        with serving(folder, plan) as scene:
            ways: dict[str, Callable[[], Result]] = {
                _SIDES[0]: lambda: rounds(scene),
                _SIDES[1]: lambda: rounds(scene, kill=True),
                _SIDES[2]: lambda: rounds(scene, lies=lies),
            }
            for side, way in ways.items():
                print(f"seed {plan.seed}: {side}", file=sys.stderr)
                found[side] = way()
        if with_flower:
            print(f"seed {plan.seed}: {_SIDES[3]}", file=sys.stderr)
            found[_SIDES[3]] = flower(folder)
    return found


def table(results: list[dict[str, Result]]) -> str:
    """One row a side: means over the seeds, the accuracy with its standard deviation."""
    rows = ["| side | accuracy | up | down | seconds | rejected |", "|---|---|---|---|---|---|"]
    for side in results[0]:
        mine = [result[side] for result in results]
        values = [100 * one["accuracy"] for one in mine]
        spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
        up, down = (statistics.fmean(one[name] for one in mine) / 1e6 for name in ("up_bytes", "down_bytes"))
        seconds, rejected = statistics.fmean(one["seconds"] for one in mine), mine[0].get("rejected", "–")
        cells = (f"{statistics.fmean(values):.1f} %{spread}", f"{up:.2f} MB", f"{down:.2f} MB", f"{seconds:.0f}")
        rows.append(f"| {side} | {' | '.join(cells)} | {rejected} |")
    full = statistics.fmean(result[_SIDES[0]]["full_bytes"] for result in results) / 1e6
    return "\n".join([*rows, "", f"All weights both ways: {full:.2f} MB."])


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.federated", description=__doc__)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=float, default=2.0, help="of each device in a round")
    parser.add_argument("--quick", action="store_true", help="4 agents, 2 rounds, one seed")
    parser.add_argument("--without-flower", action="store_true")
    chosen = parser.parse_args()
    agents, count, seeds = (4, 2, 1) if chosen.quick else (chosen.agents, chosen.rounds, chosen.seeds)
    results = []
    for seed in range(seeds):
        results.append(compare(Plan(agents, count, chosen.epochs, seed), not chosen.without_flower))
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "federated.json").write_text(json.dumps(results, indent=1))
    print(table(results))


if __name__ == "__main__":
    main()
