# Copied from device_agent/pock_agent/weights by `python -m client.generate`.
"""Trained weights as what changed of them (`docs/reference/weight-deltas.md`). Open `making` first.

`python -m client.generate` copies this package into the client and the service, which read what the agent writes: it
must import nothing but the standard library and its own modules.
"""
