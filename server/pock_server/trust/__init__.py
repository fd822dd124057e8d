"""Which keys may sign work: a chain of documents signed by root keys, and the private keys, encrypted."""
