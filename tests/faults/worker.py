"""The build worker of these tests: as the agent's tests have it, but a build takes a moment, so that it can be hit, and
no two leave the same bytes, so that all of them are stored."""

import os
import sys
import time
from pathlib import Path

from tests.agent import fake_build_worker

_SECONDS = 0.7

if __name__ == "__main__":
    if sys.argv[1] == "build":
        time.sleep(_SECONDS)
        fake_build_worker.build(Path(sys.argv[2]), os.urandom(1000))
    else:
        fake_build_worker.main()
