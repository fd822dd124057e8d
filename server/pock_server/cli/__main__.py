"""`python -m pock_server.cli`."""

from pock_server.cli import main

main()
