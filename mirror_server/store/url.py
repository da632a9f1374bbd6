"""The URL of a database."""

from __future__ import annotations

import re
from pathlib import Path

from mirror_server.store.failures import DatabaseError

DEFAULT_URL = "sqlite:///mirror.db"
_SQLITE = "sqlite:///"
_POSTGRESQL = ("postgresql://", "postgres://")


def is_postgresql(url: str) -> bool:
    """Whether it leads to a PostgreSQL server, whose databases several processes may serve."""
    return url.startswith(_POSTGRESQL)


def path_of(url: str) -> Path:
    """The file a URL names.

    Raises:
        DatabaseError: The URL is of another kind.
    """
    if is_postgresql(url):
        raise DatabaseError("this is for SQLite files only; use pg_dump and pg_restore for a PostgreSQL database")
    # One in memory would be another one for each of the server's connections.
    if not url.startswith(_SQLITE) or url in {_SQLITE, f"{_SQLITE}:memory:"}:
        raise DatabaseError(
            f"cannot use the database {url!r}: write it as sqlite:///FILE, like {DEFAULT_URL}, or as"
            " postgresql://USER@HOST/NAME"
        )
    return Path(url.removeprefix(_SQLITE))


def shown(url: str) -> str:
    """The URL without its password."""
    return re.sub(r"(?<=://)([^/?@:]*):[^/?]*@", r"\1@", re.sub(r"([?&]password=)[^&]*", r"\1...", url))
