"""`python -m pockengine.codegen.reference FOLDER/program.json ENTRY OPTION…`: the program of a reference artifact.

Errors are one sentence on stderr; the exit codes are those of docs/reference/binary.md."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pockengine.codegen.reference import options
from pockengine.codegen.reference.information import information
from pockengine.codegen.reference.job import Job
from pockengine.codegen.reference.machine import Machine
from pockengine.codegen.reference.runner import ReferenceRunner
from pockengine.errors import DivergedError, PockError

DONE, FAILED, USAGE, BAD_DATA, IO, MEMORY, DIVERGED = 0, 1, 2, 3, 4, 5, 6


def main(arguments: Sequence[str]) -> int:
    """Runs one entry point; the exit code."""
    started = time.monotonic()
    try:
        asked = options.parse(arguments[1:])
        if asked is None:
            print(options.USAGE, end="")
            return DONE
        _run(Path(arguments[0]), asked, started)
    except BrokenPipeError:
        return IO
    except (PockError, OSError, MemoryError) as error:
        print(str(error) or "out of memory", file=sys.stderr)
        return _code(error)
    return DONE


def _run(program: Path, asked: options.Options, started: float) -> None:
    machine = ReferenceRunner().open(program.parent, program.name, 0)
    assert isinstance(machine, Machine)
    if asked.entry == "info":
        print(json.dumps(information(machine)))
        return
    if asked.load is not None:
        machine.load(asked.load)
    Job(machine, asked, started).run()


def _code(error: Exception) -> int:
    kinds = {options.UsageError: USAGE, DivergedError: DIVERGED, PockError: BAD_DATA, OSError: IO, MemoryError: MEMORY}
    return next((code for kind, code in kinds.items() if isinstance(error, kind)), FAILED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
