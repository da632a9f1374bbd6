"""Access keys: made, shown once, recognised. Only the hash of a key's secret is stored. Source: wire.md 0."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from enum import StrEnum

from mirror_server.core.errors import Refusal
from mirror_server.core.instants import Instant
from mirror_server.store import keys
from mirror_server.store.database import Database
from mirror_server.store.keys import StoredKey

_KEY = re.compile(r"ak_([0-9a-f]{16})_([\w-]{43})", re.ASCII)
_BEARER = re.compile(r"bearer +(\S+) *\Z", re.IGNORECASE)


class Scope(StrEnum):
    """What a key may be used for."""

    READ = "read"
    WRITE = "write"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)


def create(database: Database, name: str, scopes: Iterable[Scope], at: Instant) -> str:
    """Store a new key; gives the key itself, which cannot be had again."""
    key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
    words = " ".join(sorted(set(scopes)))
    stored = StoredKey(key_id, name, _hash(secret), words, created_at=at, revoked_at=None)
    database.write(lambda session: keys.insert(session, stored))
    return f"ak_{key_id}_{secret}"


def authenticate(database: Database, authorization: str | None) -> tuple[str, frozenset[Scope]]:
    """The application behind an ``Authorization`` header and what its key may be used for.

    Raises:
        Refusal: The header is missing or malformed, or the key unknown or revoked (401).
    """
    bearer = _BEARER.match(authorization or "")
    if bearer is None:
        raise _refused("no access key; send the header 'Authorization: Bearer <key>'")
    parts = _KEY.fullmatch(bearer[1])
    if parts is None:
        raise _refused("malformed access key; a key begins with ak_ and is shown when it is created")
    with database.read() as session:
        stored = keys.find(session, parts[1])
    known_hash = stored.secret_hash if stored else b""
    if not hmac.compare_digest(known_hash, _hash(parts[2])) or stored is None or stored.revoked_at is not None:
        raise _refused("unknown or revoked access key; an operator makes one with 'mirror-server keys create NAME'")
    return stored.key_id, frozenset(map(Scope, stored.scopes.split()))


def _hash(secret: str) -> bytes:
    # The secret has 256 random bits, so a fast hash is enough: nothing shorter than the secret can be guessed.
    return hashlib.sha256(secret.encode("ascii")).digest()


def _refused(message: str) -> Refusal:
    return Refusal(401, message)
