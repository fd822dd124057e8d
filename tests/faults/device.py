"""An agent that works until it is killed: `python -m tests.faults.device STATE`."""

import logging
import sys
from pathlib import Path

from pock_agent.disk.directory import StateDirectory
from pock_agent.life import agent
from tests.agent.driver import FAST
from tests.faults.clock import set_wrong

if __name__ == "__main__":
    set_wrong()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    agent.run(StateDirectory(Path(sys.argv[1])), FAST)
