"""Column types of the migrations, which mean the same to SQLite and PostgreSQL."""

import sqlalchemy as sa

LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""An integer of 64 bits.

SQLite numbers rows by itself, and keeps a table in the order of its key without an index, only where the type is
exactly INTEGER, which is as long as it needs to be.
"""

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""A text, sorted by its bytes, as SQLite does, whatever the language of the database."""
