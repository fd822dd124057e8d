"""Claims queued builds and sweeps lost leases."""
