"""The access key of a demo, stored next to its database, so that programs can use it after the next start.

The database has only a hash of the key. The key itself is in a separate file that only its owner can read.
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

from mirror_server.core.timestamps import Instant
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.store import keys as stored_keys
from mirror_server.store.database import Database

NAME = "mirror-server demo"
_OVERLAP_SECONDS = 24 * 3600
_MOST_BYTES = 200
_ANOTHER = "Remove the file; the next start creates a new key"
# A link may lead to a file of another user. To open a named pipe would wait for its writer. Windows has neither flag.
_NEITHER_FOLLOW_NOR_WAIT = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class KeyFileError(Exception):
    """The key file cannot be used. The message says why and what to do."""


class _KeyStatus(Enum):
    """The state of a key in a database."""

    UNKNOWN = auto()
    IN_USE = auto()
    RENEWED = auto()
    REVOKED = auto()


class DemoKey(NamedTuple):
    """A key and messages for the user; ``problem`` is set if programs cannot continue with their key."""

    key: str
    note: str = ""
    problem: str = ""


def stored_key(database: Database, database_path: Path, at: Instant) -> DemoKey:
    """Return the key that is stored next to a database, or store a new one there.

    A new database adopts the existing key. A revoked key stays invalid, and the demo becomes another application. A
    renewed key is renewed again, and the key that others have is valid for one more day.

    Args:
        database: The database, which no other process serves.
        database_path: The file of the database.
        at: The present, by the clock of the system.

    Raises:
        KeyFileError: The file is not a key that only its owner can read. Nothing was changed.
    """
    file = key_file(database_path)
    stored = _read(file)
    if stored is None:
        return _store(file, reissued(database, at))
    match _key_status(database, stored):
        case _KeyStatus.UNKNOWN:
            keys.store_key(database, stored, NAME, tuple(Scope), at)
        case _KeyStatus.REVOKED:
            return _store(file, keys.create(database, NAME, tuple(Scope), at), f"the key in {file} was revoked")
        case _KeyStatus.RENEWED:
            renewed = keys.renew(database, keys.parse_key(stored)[0], _OVERLAP_SECONDS, at)
            return _store(file, renewed, f"the key in {file} was renewed elsewhere")
    return DemoKey(stored, note=_stored_note(file))


def reissued(database: Database, at: Instant) -> str:
    """Create a new key for the demo of a database. The previous key becomes invalid.

    Log, subscriptions and rules are kept.
    """
    with database.read() as session:
        in_use = [key.key_id for key in stored_keys.list_all(session) if key.name == NAME and key.revoked_at is None]
    key = keys.generate_key(in_use[0] if in_use else secrets.token_hex(8))
    keys.store_key(database, key, NAME, tuple(Scope), at)
    return key


def _key_status(database: Database, key: str) -> _KeyStatus:
    """Return the state of a key. A key that is only valid for an overlap has been renewed.

    Raises:
        ValueError: The text does not have the form of a key.
    """
    key_id, secret = keys.parse_key(key)
    with database.read() as session:
        found = stored_keys.find(session, key_id)
    if found is None:
        return _KeyStatus.UNKNOWN
    if found.revoked_at is not None:
        return _KeyStatus.REVOKED
    return _KeyStatus.IN_USE if hmac.compare_digest(found.secret_hash, keys.hash_of(secret)) else _KeyStatus.RENEWED


def key_file(database_path: Path) -> Path:
    """Return the key file of a database."""
    path = database_path.resolve()
    return path.with_name(f"{path.name}.key")


def _stored_note(file: Path) -> str:
    return f"The key is stored in {file}, which only you can read. The next demo on this database uses it too."


def _store(file: Path, key: str, reason: str = "") -> DemoKey:
    try:
        _write(file, key)
    except OSError as error:
        problem = f"cannot store the key in {file} ({error.strerror}); the next start creates a new key"
        return DemoKey(key, problem=problem)
    return DemoKey(key, note=_stored_note(file), problem=f"{reason}; the file now contains a new key" if reason else "")


def _write(file: Path, key: str) -> None:
    """Write the key file. At no moment can another user read the file. It gets its final name when it is complete."""
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
    """Return the key in the file, or ``None`` if it does not exist."""
    try:
        descriptor = os.open(file, os.O_RDONLY | _NEITHER_FOLLOW_NOR_WAIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = "the file is a link" if file.is_symlink() else error.strerror
        raise KeyFileError(f"cannot read the access key of this demo in {file}: {reason}. {_ANOTHER}") from error
    try:
        if problem := distrusted(os.fstat(descriptor), file):
            raise KeyFileError(problem)
        key = os.read(descriptor, _MOST_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    try:
        keys.parse_key(key)
    except ValueError as error:
        raise KeyFileError(f"{file} does not contain the access key of this demo: {error}. {_ANOTHER}") from None
    return key


def distrusted(status: os.stat_result, file: Path) -> str:
    """Return why other users may have read a file, and the fix; an empty string if they cannot."""
    if not stat.S_ISREG(status.st_mode):
        return (
            f"the access key of this demo should be in {file}, which is not a regular file. Move it away; the next"
            " start creates a new key"
        )
    if os.name != "posix":
        return ""
    if status.st_uid != os.geteuid():
        return (
            f"another user owns the file with the access key of this demo, {file}. If you trust that user, run:"
            f" chown {os.geteuid()} {file}. Otherwise remove the file; the next start creates a new key"
        )
    if status.st_mode & 0o077:
        return (
            f"other users can read the access key of this demo in {file}. If you trust them, run: chmod 600 {file}."
            " Otherwise remove the file; the next start creates a new key"
        )
    return ""
