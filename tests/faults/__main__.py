"""All faults at all moments, in any order, again and again: `python -m tests.faults --rounds 10 --seed 1`."""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.faults import story
from tests.faults.surroundings import Kind


def main() -> None:
    """Stops at the first fault after which the law does not hold, with its traceback."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="how often the whole table is gone through")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), default=Kind.SERVERS, help="how the service is set up")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="pock-faults-") as folder, story.stage(Path(folder), options.kind) as stage:
        for number in range(options.rounds):
            table = [*story.TABLE[options.kind], *story.MORE[options.kind]]
            table += [("commit lost", what) for what in story.COMMITS if options.kind is Kind.SERVERS]
            for name, moment in dice.sample(table, len(table)):
                began = time.monotonic()
                print(f"round {number + 1}: {name}, {moment}", end="", flush=True)
                if name == "commit lost":
                    story.lose_commit(stage, moment)
                else:
                    story.suffer(stage, name, moment)
                print(f": holds after {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
