"""Runs the migrations of a branch on the connection it is given, whose transaction is its own."""

from alembic import context

context.configure(transaction_per_migration=False, **context.config.attributes)
with context.begin_transaction():
    context.run_migrations()
