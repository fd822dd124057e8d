"""A whole service as one file, and back: rows, blobs, keys; from any database and store to any other."""
