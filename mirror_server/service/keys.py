"""Access keys: create, renew and authenticate them. Source: wire.md 0.

The server stores only the hash of a key's secret. A client that sends wrong keys repeatedly gets 429 for a while. The
right key is always accepted, even if another client sent wrong secrets with the same key id, which is not secret. It
is enough to slow down clients with wrong keys, because a secret of 256 random bits cannot be guessed.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from mirror_server.clock import wall_time
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.store import keys
from mirror_server.store.database import Database
from mirror_server.store.keys import StoredKey
from mirror_server.store.session import Session

_KEY = re.compile(r"ak_([0-9a-f]{16})_([\w-]{43})", re.ASCII)
_BEARER = re.compile(r"bearer +(\S+) *\Z", re.IGNORECASE)
_MALFORMED = "malformed access key; a key begins with ak_ and is shown when it is created"
_UNKNOWN = "unknown or revoked access key; an operator creates one with 'mirror-server keys create NAME'"
_WINDOW_SECONDS = 60


class Scope(StrEnum):
    """A permission of a key."""

    READ = "read"
    WRITE = "write"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)


def create(database: Database, name: str, scopes: Iterable[Scope], at: Instant) -> str:
    """Create and store a new key, and return it. The key cannot be displayed again later."""
    key = generate_key(secrets.token_hex(8))
    store_key(database, key, name, scopes, at)
    return key


def renew(database: Database, name: str, overlap_seconds: float, at: Instant) -> str:
    """Store a new secret for a key in use, and return the new key. The key cannot be displayed again later.

    The application keeps its log, rules, subscriptions, webhook and positions. The previous key stays valid for the
    overlap. Older keys that are still valid end with the overlap, or earlier.

    Args:
        database: The database with the keys.
        name: The id of the key, or its name if only one key in use has this name.
        overlap_seconds: The time in seconds for which the previous key stays valid.
        at: The current time of the system clock.

    Raises:
        LookupError: No key in use has this id or name, or several keys have this name.
    """

    def work(session: Session) -> str:
        key_id = _key_in_use(session, name)
        key = generate_key(key_id)
        keys.renew(session, key_id, hash_of(parse_key(key)[1]), at, after_seconds(at, overlap_seconds))
        return key

    return database.write(work)


def _key_in_use(session: Session, name: str) -> str:
    in_use = [key for key in keys.list_all(session) if key.revoked_at is None]
    found = [key.key_id for key in in_use if key.key_id == name] or [key.key_id for key in in_use if key.name == name]
    if not found:
        raise LookupError(f"no key in use has the name or id {name!r}; 'mirror-server keys list' shows them")
    if len(found) > 1:
        raise LookupError(f"several keys have the name {name!r}; pass the id of one of them: {', '.join(found)}")
    return found[0]


def store_key(database: Database, key: str, name: str, scopes: Iterable[Scope], at: Instant) -> None:
    """Store a key.

    Raises:
        ValueError: The string does not have the form of a key.
    """
    key_id, secret = parse_key(key)
    scope_names = " ".join(sorted(set(scopes)))
    stored = StoredKey(key_id, name, hash_of(secret), scope_names, created_at=at, revoked_at=None)
    database.write(lambda session: keys.put(session, stored))


def parse_key(key: str) -> tuple[str, str]:
    """Return the id and the secret of a key.

    Raises:
        ValueError: The string does not have the form of a key.
    """
    parts = _KEY.fullmatch(key)
    if parts is None:
        raise ValueError("an access key consists of ak_, 16 hexadecimal digits, _, and 43 letters, digits, - or _")
    return parts[1], parts[2]


def generate_key(key_id: str) -> str:
    """Return a key with this id and a new secret, without storing it."""
    return f"ak_{key_id}_{secrets.token_urlsafe(32)}"


def hash_of(secret: str) -> bytes:
    """Return the hash of a secret, which is stored instead of the secret."""
    # A fast hash is safe, because guessing a secret of 256 random bits takes too long even with a fast hash.
    return hashlib.sha256(secret.encode("ascii")).digest()


class Identity(NamedTuple):
    """The application of a request, the scopes of its key, and the hash of the secret that the request contains."""

    app_id: str
    scopes: frozenset[Scope]
    secret_hash: bytes


class Authenticator:
    """An authenticator of keys, which slows down clients that try to guess keys.

    Args:
        database: The database with the keys.
        failures_per_minute: The number of failures per minute that one client may have with one key id. All keys that
            do not exist count as one key id.
        now: A function that returns the time of the system clock. Keys are renewed by this clock, even if the server
            uses a manual clock.
    """

    def __init__(self, database: Database, failures_per_minute: int, now: Callable[[], Instant] = wall_time) -> None:
        self._database = database
        self._now = now
        self._cache: dict[str, tuple[Hashable, StoredKey]] = {}
        self._failures_per_minute = failures_per_minute
        # By client and key id, oldest first: the end of the minute after the first failure, and the number of
        # failures.
        self._failures: dict[tuple[str, str], tuple[float, int]] = {}
        self._failures_lock = threading.Lock()

    def authenticate(
        self, authorization: str | None, client: Callable[[], str], version: Hashable | None = None
    ) -> Identity:
        """Return the identity of the client that sent an ``Authorization`` header.

        Args:
            authorization: The value of the header.
            client: A function that returns the address of the client. It is called only if the key is wrong.
            version: The version of the database, read after the request arrived. Each key is read once per version.

        Raises:
            ApiError: The header is missing or malformed, or the key is unknown or revoked (401). The client sent wrong
                keys too often (429).
        """
        bearer = _BEARER.match(authorization or "")
        if bearer is None:
            raise ApiError(401, "no access key; send the header 'Authorization: Bearer <key>'")
        parts = _KEY.fullmatch(bearer[1])
        if parts is None:
            raise self._failed(client(), "", _MALFORMED)
        key_id = parts[1]
        stored = self._find(key_id, version)
        if stored is None:
            raise self._failed(client(), "", _UNKNOWN)
        secret_hash = hash_of(parts[2])
        if not self._matches(stored, secret_hash):
            raise self._failed(client(), stored.key_id, _UNKNOWN)
        return Identity(stored.key_id, _scopes(stored.scopes), secret_hash)

    def still_admits(self, identity: Identity) -> bool:
        """Return whether the key of a client that :meth:`authenticate` admitted is still valid."""
        return self.is_valid(identity, self._find(identity.app_id, self._database.version()))

    def is_valid(self, identity: Identity, stored: StoredKey | None) -> bool:
        """Return whether a stored key, as :meth:`find` returns it, is valid and has the secret of a client."""
        return stored is not None and self._matches(stored, identity.secret_hash)

    def find(self, key_id: str) -> StoredKey | None:
        """Return the stored key with this id, or ``None`` if it does not exist."""
        return self._database.query(lambda session: keys.find(session, key_id))

    def _matches(self, stored: StoredKey, secret_hash: bytes) -> bool:
        if stored.revoked_at is not None:
            return False
        # Former secrets are read only if the newest one does not match.
        if hmac.compare_digest(stored.secret_hash, secret_hash):
            return True
        former = self._database.query(lambda session: keys.former_secrets(session, stored.key_id, self._now()))
        return any(hmac.compare_digest(each.secret_hash, secret_hash) for each in former)

    def _find(self, key_id: str, version: Hashable | None) -> StoredKey | None:
        cached_version, stored = self._cache.get(key_id, (None, None))
        if stored is not None and version is not None and version == cached_version:
            return stored
        stored = self.find(key_id)
        # Unknown keys are not cached, because clients could fill the cache with invented key ids.
        if stored is not None and version is not None:
            self._cache[key_id] = (version, stored)
        return stored

    def _failed(self, client: str, key_id: str, message: str) -> ApiError:
        # This uses real time, because with a manual clock the limit would never end.
        now = time.time()
        with self._failures_lock:
            while self._failures and next(iter(self._failures.values()))[0] <= now:
                del self._failures[next(iter(self._failures))]
            ends_at, count = self._failures.get((client, key_id), (now + _WINDOW_SECONDS, 0))
            self._failures[client, key_id] = (ends_at, count + 1)
        if count < self._failures_per_minute:
            return ApiError(401, message)
        wait_seconds = max(1, math.ceil(ends_at - now))
        return ApiError(
            429,
            f"too many requests with wrong keys from {client}; correct the key and try again in {wait_seconds} s",
            retry_after_seconds=wait_seconds,
        )


@lru_cache(maxsize=64)
def _scopes(names: str) -> frozenset[Scope]:
    return frozenset(map(Scope, names.split()))
