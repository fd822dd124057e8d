"""The database's schema over time; tables are made here and nowhere else.

A new revision is a new module in `versions/`; tests/server/operating/test_migrations.py says what differs from the
tables.
"""
