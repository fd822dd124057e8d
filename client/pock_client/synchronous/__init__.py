# Generated from pock_client/asynchronous by `python -m client.generate`.
"""The client as it is written, with async and await; `synchronous` is made from it by `python -m client.generate`."""
