"""`python -m pock_agent`, the same as the `pock-agent` command."""

import sys

from pock_agent.cli import main

if __name__ == "__main__":
    sys.exit(main())
