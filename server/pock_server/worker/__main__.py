"""Command line of the worker; see the package."""

import os
import sys

from pock_server.settings import Settings
from pock_server.worker.build import build
from pock_server.worker.describe import describe
from pock_server.worker.lines import Lines


def main() -> int:
    """Serve one task; exit status 0 if it was served, whatever came of it."""
    if len(sys.argv) != 2:
        print("usage: python -m pock_server.worker BUILD_ID | describe", file=sys.stderr)
        return 2
    settings = Settings()
    if sys.argv[1] == "describe":
        describe(settings)
        return 0
    os.nice(5)  # the API on the same machine comes first
    build(settings, sys.argv[1], Lines.take_stdout())
    return 0


if __name__ == "__main__":
    sys.exit(main())
