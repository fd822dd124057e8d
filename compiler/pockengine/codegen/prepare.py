"""`python -m pockengine.codegen.prepare NAME…`: makes ready what builds need, so that the first is quick.

The C compiler builds its C library once for each architecture, which takes most of a minute: set-up scripts and images
do it ahead.
"""

from __future__ import annotations

import sys

from pockengine.codegen import backends
from pockengine.errors import PockError
from pockengine.targets import get


def main(names: list[str]) -> int:
    """Prepares each target; the exit code."""
    try:
        for target in [get(name) for name in names]:
            print(f"preparing the C compiler for {target.name}", flush=True)
            backends.get().prepare(target)
    except PockError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
