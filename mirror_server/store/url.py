"""The URL of a database."""

from __future__ import annotations

import re
from pathlib import Path

from mirror_server.store.failures import DatabaseError

DEFAULT_URL = "sqlite:///mirror.db"
_SQLITE = "sqlite:///"

LOCATIONS = {"sqlite": "mirror_server.store.sqlite.location:SqliteLocation"}
"""The class of :class:`~mirror_server.store.location.Location` by the scheme of a URL, imported when it is used.

Extensions add theirs, see :func:`mirror_server.hooks.locations`.
"""


def path_of(url: str) -> Path:
    """The file a URL names.

    Raises:
        DatabaseError: It is no URL of a file.
    """
    # One in memory would be another one for each of the server's connections.
    if not url.startswith(_SQLITE) or url in {_SQLITE, f"{_SQLITE}:memory:"}:
        raise no_url(url)
    return Path(url.removeprefix(_SQLITE))


def no_url(url: str) -> DatabaseError:
    """The error for what is no URL of a database that this server opens."""
    if url.startswith(("postgresql://", "postgres://")):
        return DatabaseError(
            f"cannot use the database {shown(url)}: the extension postgresql is not there; put its folder back, or"
            f" write the database as sqlite:///FILE, like {DEFAULT_URL}"
        )
    return DatabaseError(
        f"cannot use the database {url!r}: write it as sqlite:///FILE, like {DEFAULT_URL}, or as"
        " postgresql://USER@HOST/NAME"
    )


def shown(url: str) -> str:
    """The URL without its password."""
    return re.sub(r"(?<=://)([^/?@:]*):[^/?]*@", r"\1@", re.sub(r"([?&]password=)[^&]*", r"\1...", url))
