"""`python -m pock_client.cli` is `pock-client`."""

from . import main

main()
