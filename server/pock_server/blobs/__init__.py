"""Content-addressed bytes and resumable uploads."""
