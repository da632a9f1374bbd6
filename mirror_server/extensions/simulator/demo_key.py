"""The access key of a demo, kept beside its database, so that programs go on with it after the next start.

Only a hash of a key is in the database, so the key itself stands in a file of its own, which its owner alone can read.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
import tempfile
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from mirror_server.core.instants import Instant
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store import keys as stored_keys
from mirror_server.store.database import Database

NAME = "mirror-server demo"
_OVERLAP_SECONDS = 24 * 3600
_MOST_BYTES = 200
_ANOTHER = "remove it, and the demo makes another key"
_NEITHER_FOLLOW_NOR_WAIT = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class KeyFileError(Exception):
    """The file with the key is not to be used; the message says why and what to do."""


class _Standing(Enum):
    """What a database says of a key."""

    UNKNOWN = auto()
    IN_USE = auto()
    RENEWED = auto()
    REVOKED = auto()


class DemoKey(NamedTuple):
    """A key, and what is to be said of it; ``problem`` where programs may not go on with the key they had."""

    key: str
    note: str = ""
    problem: str = ""


def stored_key(database: Database, database_path: Path, at: Instant) -> DemoKey:
    """The key that stands beside a database, or a new one, which is put there.

    A new database takes over the key that is there. A key that was revoked stays useless: the demo is another
    application from then on. One that was renewed is renewed once more, and what others have of it is good for a day.

    Args:
        database: The database, which no other process serves.
        database_path: Its file.
        at: The present, by the clock of the system.

    Raises:
        KeyFileError: There is something, but no key that only its owner could read; nothing was changed.
    """
    file = key_file(database_path)
    kept = _read(file)
    if kept is None:
        return _keep(file, reissued(database, at))
    match _standing(database, kept):
        case _Standing.UNKNOWN:
            keys.store_key(database, kept, NAME, tuple(Scope), at)
        case _Standing.REVOKED:
            return _keep(file, keys.create(database, NAME, tuple(Scope), at), f"the key in {file} was revoked")
        case _Standing.RENEWED:
            renewed = keys.renew(database, keys.parse_key(kept)[0], _OVERLAP_SECONDS, at)
            return _keep(file, renewed, f"the key in {file} was renewed elsewhere")
    return DemoKey(kept, note=_kept_in(file))


def reissued(database: Database, at: Instant) -> str:
    """Make a new key for the demo of a database; the one it had is useless from then on.

    Its log, its subscriptions and its rules go on.
    """
    with database.read() as session:
        in_use = [key.key_id for key in stored_keys.list_all(session) if key.name == NAME and key.revoked_at is None]
    key = keys.generate_key(in_use[0] if in_use else secrets.token_hex(8))
    keys.store_key(database, key, NAME, tuple(Scope), at)
    return key


def _standing(database: Database, key: str) -> _Standing:
    """How a key stands; one that is good for an overlap only has been renewed.

    Raises:
        ValueError: It has not the form of a key.
    """
    key_id, secret = keys.parse_key(key)
    with database.read() as session:
        stored = stored_keys.find(session, key_id)
    if stored is None:
        return _Standing.UNKNOWN
    if stored.revoked_at is not None:
        return _Standing.REVOKED
    return _Standing.IN_USE if hmac.compare_digest(stored.secret_hash, keys.hash_of(secret)) else _Standing.RENEWED


def key_file(database_path: Path) -> Path:
    """Where the key of a database is kept."""
    path = database_path.resolve()
    return path.with_name(f"{path.name}.key")


def _kept_in(file: Path) -> str:
    return f"The key is kept in {file}, for you alone: a demo on this database has it the next time too."


def _keep(file: Path, key: str, reason: str = "") -> DemoKey:
    try:
        _write(file, key)
    except OSError as error:
        return DemoKey(key, problem=f"cannot keep the key in {file} ({error.strerror}): the next start makes another")
    return DemoKey(key, note=_kept_in(file), problem=f"{reason}; a new one is kept there now" if reason else "")


def _write(file: Path, key: str) -> None:
    """Put the key into the file, which nobody else can read at any moment, and which has its name when it is whole."""
    descriptor, name = tempfile.mkstemp(prefix=f"{file.name}.", suffix=".part", dir=file.parent)
    part = Path(name)
    try:
        with open(descriptor, "w", encoding="ascii") as opened:  # noqa: PTH123 - of a descriptor
            opened.write(f"{key}\n")
            opened.flush()
            os.fsync(descriptor)
        part.replace(file)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _read(file: Path) -> str | None:
    """The key in the file; ``None`` where there is none."""
    try:
        descriptor = os.open(file, os.O_RDONLY | _NEITHER_FOLLOW_NOR_WAIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = "it is a link" if file.is_symlink() else error.strerror
        raise KeyFileError(f"cannot read the key of this demo in {file}: {reason}; {_ANOTHER}") from error
    try:
        if reason := distrusted(os.fstat(descriptor)):
            raise KeyFileError(f"the key of this demo in {file} is not to be trusted: {reason}; or {_ANOTHER}")
        key = os.read(descriptor, _MOST_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    try:
        keys.parse_key(key)
    except ValueError as error:
        raise KeyFileError(f"{file} does not hold the key of this demo: {error}; {_ANOTHER}") from None
    return key


def distrusted(status: os.stat_result) -> str:
    """Why others than the one who runs this may know what stands in a file, and what to do; empty if they do not."""
    if not stat.S_ISREG(status.st_mode):
        return "it is not a file; move it away"
    if os.name != "posix":
        return ""
    if status.st_uid != os.geteuid():
        return "it belongs to another user; make it your own with chown"
    if status.st_mode & 0o077:
        return "others may use it; if nobody has, chmod 600 makes it yours alone"
    return ""
