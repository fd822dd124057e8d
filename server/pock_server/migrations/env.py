"""Alembic's entry point: runs migrations on the connection that `runner` opened."""

from alembic import context

from pock_server.db.registry import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
