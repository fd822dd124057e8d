"""An agent that is not what it seems: `python dishonest_agent.py lies|errs run --state-dir D`.

One lies: of trials it says that the last candidate is far quicker than it was. One errs: its memory flips bits, so
that what kernels compute is not what they are compared with.
"""

import sys
from typing import Any

from pock_agent import cli
from pock_agent.job import worker

_TOLD = "artifact/params.safetensors"
honestly: Any = vars(worker)["run_phase"]


def lies(workplace: Any, *rest: Any) -> Any:
    """A report in which the last candidate of each workload wins."""
    report, ended = honestly(workplace, *rest)
    trials = report.get("trials", [])
    first = {trial["workload"]: trial["ms"] for trial in trials if trial["candidate"] == 0}
    last = {trial["workload"]: trial for trial in trials}
    for workload, trial in last.items():
        if trial["candidate"]:
            trial["ms"] = [0.5 * ms for ms in first[workload]]
    return report, ended


def errs(workplace: Any, *rest: Any) -> Any:
    """A report of a program that got other numbers to compare with than were sent."""
    file = workplace.folder / _TOLD
    data = bytearray(file.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    for place in range(start, len(data), 4 * 13):
        data[place : place + 4] = b"\0\0\x7a\x44"  # 1000.0
    file.unlink()  # it is linked to the cache, which is to stay right
    file.write_bytes(data)
    file.chmod(0o444)
    return honestly(workplace, *rest)


if __name__ == "__main__":
    vars(worker)["run_phase"] = {"lies": lies, "errs": errs}[sys.argv.pop(1)]
    sys.argv[0] = "pock-agent"
    sys.exit(cli.main())
