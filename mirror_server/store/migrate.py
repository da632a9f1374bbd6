"""Brings a database to the newest schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.engine import URL

from mirror_server.store.failures import DatabaseError


def upgrade(url: URL, revision: str = "head", connect: Callable[[], Any] | None = None) -> None:
    """Apply, in order, the migrations up to ``revision`` that the database lacks; a file is made if need be.

    Args:
        url: The database, or only its kind where ``connect`` is given.
        revision: The migration to end with.
        connect: Makes the connection.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    engine = create_engine(url) if connect is None else create_engine(url, creator=connect)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, revision)
    finally:
        engine.dispose()


def newer_version(name: str, error: Exception) -> DatabaseError:
    """What to say of a database whose schema this version does not know."""
    return DatabaseError(
        f"the database {name} was written by a newer version ({error}); install that one, or restore a backup from"
        " before"
    )
