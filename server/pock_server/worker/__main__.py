"""Command line of the worker; see the package."""

import os
import sys
from pathlib import Path

from pock_server.worker.answer import answer
from pock_server.worker.build import build
from pock_server.worker.cache import prepare
from pock_server.worker.describe import describe
from pock_server.worker.lines import Lines


def main(arguments: list[str]) -> int:
    """Serve one task; exit status 0 if it was served, whatever came of it."""
    lines = Lines.take_stdout()
    match arguments:
        case ["describe"]:
            lines.compiler(*describe())
        case ["prepare", target, *known] if len(known) <= 1:
            prepare(target, Path(known[0]) if known else None)
        case ["build", folder]:
            os.nice(5)  # the API on the same machine comes first
            build(Path(folder), lines)
        case ["answer", folder]:
            answer(Path(folder), lines)
        case _:
            usage = (
                "usage: python -m pock_server.worker build FOLDER | answer FOLDER | describe | prepare TARGET [KNOWN]"
            )
            print(usage, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
