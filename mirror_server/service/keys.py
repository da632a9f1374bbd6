"""Access keys: made, shown once, renewed. Only the hash of a key's secret is stored. Source: wire.md 0."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from enum import StrEnum

from mirror_server.core.instants import Instant, after_seconds
from mirror_server.store import keys
from mirror_server.store.database import Database
from mirror_server.store.keys import StoredKey
from mirror_server.store.session import Session

KEY_FORM = re.compile(r"ak_([0-9a-f]{16})_([\w-]{43})", re.ASCII)


class Scope(StrEnum):
    """What a key may be used for."""

    READ = "read"
    WRITE = "write"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)


def create(database: Database, name: str, scopes: Iterable[Scope], at: Instant) -> str:
    """Store a new key; gives the key itself, which cannot be had again."""
    key = _fresh(secrets.token_hex(8))
    stored = _stored(key, name, scopes, at)
    database.write(lambda session: keys.insert(session, stored))
    return key


def reissue(database: Database, name: str, scopes: Iterable[Scope], at: Instant) -> str:
    """A new key for the application of this name, whose old one is useless from then on; gives the key.

    Its log, its subscriptions and its rules go on. An application that is not there yet, or was revoked, is made.
    """
    with database.read() as session:
        known = [key.key_id for key in keys.list_all(session) if key.name == name and key.revoked_at is None]
    key = _fresh(known[0] if known else secrets.token_hex(8))
    adopt(database, key, name, scopes, at)
    return key


def renew(database: Database, name: str, overlap_seconds: float, at: Instant) -> str:
    """Another secret for a key in use; gives the new key, which cannot be had again.

    The application stays what it is, with its log, rules, subscriptions, webhook and positions. The key it had is good
    for the overlap, and so are those before where they are still good, but none of them for longer.

    Args:
        database: Where the keys are.
        name: The key's id, or the name it alone has of the keys in use.
        overlap_seconds: How long the key it had is still good.
        at: The present, by the clock of the system.

    Raises:
        LookupError: No key in use has this id or name, or several have this name.
    """

    def work(session: Session) -> str:
        key_id = _key_in_use(session, name)
        key = _fresh(key_id)
        keys.renew(session, key_id, hash_of(parts_of(key)[1]), at, after_seconds(at, overlap_seconds))
        return key

    return database.write(work)


def _key_in_use(session: Session, name: str) -> str:
    in_use = [key for key in keys.list_all(session) if key.revoked_at is None]
    found = [key.key_id for key in in_use if key.key_id == name] or [key.key_id for key in in_use if key.name == name]
    if not found:
        raise LookupError(f"no key in use has the name or id {name!r}; 'mirror-server keys list' shows them")
    if len(found) > 1:
        raise LookupError(f"several keys have the name {name!r}; give the id of one of them: {', '.join(found)}")
    return found[0]


def adopt(database: Database, key: str, name: str, scopes: Iterable[Scope], at: Instant) -> None:
    """Store a key that was made elsewhere.

    Raises:
        ValueError: It has not the form of a key.
    """
    stored = _stored(key, name, scopes, at)
    database.write(lambda session: keys.put(session, stored))


def parts_of(key: str) -> tuple[str, str]:
    """The id and the secret of a key.

    Raises:
        ValueError: It has not the form of a key.
    """
    parts = KEY_FORM.fullmatch(key)
    if parts is None:
        raise ValueError("an access key is ak_, 16 hexadecimal digits, _ and 43 letters, digits, - or _")
    return parts[1], parts[2]


def _fresh(key_id: str) -> str:
    return f"ak_{key_id}_{secrets.token_urlsafe(32)}"


def _stored(key: str, name: str, scopes: Iterable[Scope], at: Instant) -> StoredKey:
    key_id, secret = parts_of(key)
    words = " ".join(sorted(set(scopes)))
    return StoredKey(key_id, name, hash_of(secret), words, created_at=at, revoked_at=None)


def hash_of(secret: str) -> bytes:
    """What is stored of a secret."""
    # The secret has 256 random bits, so a fast hash is enough: nothing shorter than the secret can be guessed.
    return hashlib.sha256(secret.encode("ascii")).digest()
