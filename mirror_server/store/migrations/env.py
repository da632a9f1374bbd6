"""Runs the migrations on the connection it is given, whose transaction is its own.

A migration is a file ``versions/NUMBER_name.py``; after any change of one, ``python -m mirror_server.store.migrate``
writes ``schema.sql`` anew.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=False)
with context.begin_transaction():
    context.run_migrations()
