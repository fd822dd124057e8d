"""The agent tests' build worker, slow enough to be killed at work."""

import sys
import time

from tests.agent.fake_build_worker import main

if __name__ == "__main__":
    if sys.argv[1] == "build":
        time.sleep(2)
    main()
