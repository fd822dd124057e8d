"""`python -m pockengine.cli` is `pock`."""

from . import main

main()
