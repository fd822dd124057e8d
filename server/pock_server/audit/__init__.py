"""The audit log: who changed what, when and from where. It outlives what it tells of, and nothing rewrites it."""
