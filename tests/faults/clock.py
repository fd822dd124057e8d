"""Programs whose clock is wrong by the seconds in the file that FAULTS_CLOCK names, which may change while they run.

`python -m tests.faults.clock serve ...` is `pock-server` with such a clock.
"""

import os
import time
from datetime import UTC, datetime
from pathlib import Path


def set_wrong() -> None:
    """Make this process's time of day wrong; its monotonic clock goes on, as the kernel's does."""
    told, real = Path(os.environ["FAULTS_CLOCK"]), time.time
    time.time = lambda: real() + float(told.read_text())


if __name__ == "__main__":
    from pock_server.cli import main
    from pock_server.clock import SystemClock

    set_wrong()
    SystemClock.now = lambda self: datetime.fromtimestamp(time.time(), UTC)  # type: ignore[method-assign]
    main()
