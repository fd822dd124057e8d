"""The device agent: enrols, polls for signed work, verifies it, runs it confined and reports the result.

It runs on the device, on Python 3.9 and later with `cryptography` as its only dependency, and must know neither the
compiler nor the server: `docs/reference/api.md` and `docs/reference/binary.md` are all that it shares with them.
"""

__version__ = "0.1.0"
