"""`python -m pock_server.cli`."""

from pock_server.cli import main

if __name__ == "__main__":  # processes that share the listening socket import this module, too
    main()
