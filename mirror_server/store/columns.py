"""Columns for the migrations, of types that mean the same to SQLite and PostgreSQL."""

from typing import Any

import sqlalchemy as sa

LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""An integer of 64 bits.

SQLite numbers rows by itself, and keeps a table in the order of its key without an index, only where the type is
exactly INTEGER, which is as long as it needs to be.
"""

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""A text, sorted by its bytes, as SQLite does, whatever the language of the database."""


def required(kind: Any, *names: str, default: str | None = None) -> list[sa.Column[Any]]:
    """Return columns of a type that are never NULL."""
    return [sa.Column(name, kind, nullable=False, server_default=default) for name in names]


def optional(kind: Any, *names: str) -> list[sa.Column[Any]]:
    """Return columns of a type that may be NULL."""
    return [sa.Column(name, kind) for name in names]
