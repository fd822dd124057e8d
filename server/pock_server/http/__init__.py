"""The HTTP conventions every domain shares: problems, pages, idempotency, ranges, streams; knows no domain."""
