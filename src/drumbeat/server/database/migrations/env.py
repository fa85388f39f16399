"""Run by Alembic for each upgrade: it uses the connection, and the transaction, that `upgrade` hands over."""

from alembic import context
from sqlalchemy import Connection

connection = context.config.attributes["connection"]
assert isinstance(connection, Connection)  # noqa: S101 - only `upgrade` runs this
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
