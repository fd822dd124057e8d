"""Celery over Redis: doorbells for build workers. The database is the truth, and Redis may lose what it has."""
