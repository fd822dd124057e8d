"""A fleet under chaos: `python -m tests.faults.fleet --agents 200 --minutes 30 --seed 1`.

A real service (PostgreSQL, an S3 store, builds), a real small model, real agents in pools, each with a network and a
disk. Agents, service, database and store are killed, networks are cut and stall, disks fill, clocks go wrong, owners
forbid work, releases of the agent are rolled out, good and broken ones. Then all is mended, and the law of `law.py`
must hold; no device needs a hand. Needs root, for the disks.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from tests.faults.fleet.stage import Plan, perform


def main() -> None:
    """Prints what struck and what became of the runs; ends with a traceback where the law does not hold."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the troubles and the runs")
    parser.add_argument("--pause", type=float, default=3, help="seconds between troubles, on average")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where logs and data stay (default: nowhere)")
    options = parser.parse_args()
    plan = Plan(options.agents, 60 * options.minutes, options.seed, options.pause)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        return _tell(options.keep, plan)
    with tempfile.TemporaryDirectory(prefix="pock-chaos-") as folder:
        _tell(Path(folder), plan)


def _tell(folder: Path, plan: Plan) -> None:
    account = perform(folder, plan, lambda line: print(line, flush=True))
    runs = account.runs
    print(f"\nstruck: {_counts(account.struck)}")
    print(f"rollouts of releases: {_counts(account.rollouts)}; no device runs a broken one")
    print(f"runs asked for: {runs.runs}; each has one outcome, and all succeeded in the end")
    print(f"tries: {runs.tries}; leases lost and taken again: {runs.interrupted}")
    print(f"tries that failed: {_counts(runs.failures)}")
    print(f"over {runs.settled_seconds:.0f} s after the last trouble; each of {plan.agents} devices works")


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


if __name__ == "__main__":
    main()
