"""PockEngine's service: accepts models and recipes, has training binaries built, and leases them to devices.

Only `pock_server.worker` may import the compiler; everything else talks to it through a child process.
"""

__version__ = "0.1.0"
