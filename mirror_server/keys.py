"""Access keys: made, shown once, recognised. Only the hash of a key's secret is stored. Source: wire.md 0.

Who fails again and again is told 429 for a while. The right key is always let in, also where somebody else failed with
its id, which is no secret: 256 random bits are not guessed, and to be slowed down is for who does not have them.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import time
from collections.abc import Callable, Hashable, Iterable
from enum import Enum, StrEnum, auto
from functools import lru_cache

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from mirror_server.clock import wall_time
from mirror_server.core.errors import Refusal
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.store import keys
from mirror_server.store.database import Database
from mirror_server.store.keys import FormerSecret, StoredKey
from mirror_server.store.session import Session

_KEY = re.compile(r"ak_([0-9a-f]{16})_([\w-]{43})", re.ASCII)
_BEARER = re.compile(r"bearer +(\S+) *\Z", re.IGNORECASE)


class Scope(StrEnum):
    """What a key may be used for."""

    READ = "read"
    WRITE = "write"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


_MALFORMED = "malformed access key; a key begins with ak_ and is shown when it is created"
_UNKNOWN = "unknown or revoked access key; an operator makes one with 'mirror-server keys create NAME'"
_NO_HASH = bytes(hashlib.sha256().digest_size)

DEFAULT_SCOPES = (Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)


def create(database: Database, name: str, scopes: Iterable[Scope], at: Instant) -> str:
    """Store a new key; gives the key itself, which cannot be had again."""
    key = _fresh(secrets.token_hex(8))
    stored = _stored(key, name, scopes, at)
    database.write(lambda session: keys.insert(session, stored))
    return key


class Standing(Enum):
    """What a database says of a key."""

    UNKNOWN = auto()
    IN_USE = auto()
    RENEWED = auto()
    REVOKED = auto()


def standing(database: Database, key: str) -> Standing:
    """How a key stands; one that is good for an overlap only has been renewed.

    Raises:
        ValueError: It has not the form of a key.
    """
    key_id, secret = parts_of(key)
    with database.read() as session:
        stored = keys.find(session, key_id)
    if stored is None:
        return Standing.UNKNOWN
    if stored.revoked_at is not None:
        return Standing.REVOKED
    return Standing.IN_USE if hmac.compare_digest(stored.secret_hash, _hash(secret)) else Standing.RENEWED


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
        keys.renew(session, key_id, _hash(parts_of(key)[1]), at, after_seconds(at, overlap_seconds))
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
    parts = _KEY.fullmatch(key)
    if parts is None:
        raise ValueError("an access key is ak_, 16 hexadecimal digits, _ and 43 letters, digits, - or _")
    return parts[1], parts[2]


def _fresh(key_id: str) -> str:
    return f"ak_{key_id}_{secrets.token_urlsafe(32)}"


def _stored(key: str, name: str, scopes: Iterable[Scope], at: Instant) -> StoredKey:
    key_id, secret = parts_of(key)
    words = " ".join(sorted(set(scopes)))
    return StoredKey(key_id, name, _hash(secret), words, created_at=at, revoked_at=None)


class Gate:
    """Recognises keys, and slows down who guesses them.

    Args:
        database: Where the keys are.
        failures_per_minute: How often one sender may fail with one key, or with keys that do not exist.
        now: The clock of the system, by which an operator renews keys also where the clock is manual.
    """

    def __init__(self, database: Database, failures_per_minute: int, now: Callable[[], Instant] = wall_time) -> None:
        self._database = database
        self._now = now
        self._seen: dict[str, tuple[Hashable, StoredKey]] = {}
        self._limit = RateLimitItemPerMinute(failures_per_minute)
        # Real time, not domain time: a clock that stands still would never let anybody in again.
        self._failures = FixedWindowRateLimiter(MemoryStorage())

    def authenticate(
        self, authorization: str | None, sender: Callable[[], str], version: Hashable | None = None
    ) -> tuple[str, frozenset[Scope]]:
        """The application behind an ``Authorization`` header and what its key may be used for.

        Args:
            authorization: The header.
            sender: Tells who sends it; asked only when the key is wrong.
            version: That of the database, asked for since the request came; a key is looked up once for each.

        Raises:
            Refusal: The header is missing or malformed, or the key unknown or revoked (401), or one that is there
                was wrong too often (429).
        """
        bearer = _BEARER.match(authorization or "")
        if bearer is None:
            raise Refusal(401, "no access key; send the header 'Authorization: Bearer <key>'")
        parts = _KEY.fullmatch(bearer[1])
        if parts is None:
            raise self._failed(sender(), "", _MALFORMED)
        key_id = parts[1]
        stored = self._find(key_id, version)
        if stored is None:
            hmac.compare_digest(_NO_HASH, _hash(parts[2]))
            raise self._failed(sender(), "", _UNKNOWN)
        if not self._is_good(stored, parts[2]):
            raise self._failed(sender(), stored.key_id, _UNKNOWN)
        return stored.key_id, _scopes(stored.scopes)

    def still_admits(self, authorization: str | None) -> bool:
        """Whether a header that was good is good at this moment; nothing is counted."""
        bearer = _BEARER.match(authorization or "")
        parts = _KEY.fullmatch(bearer[1]) if bearer else None
        stored = self._find(parts[1], None) if parts else None
        return bool(parts and stored and self._is_good(stored, parts[2]))

    def _is_good(self, stored: StoredKey, secret: str) -> bool:
        if stored.revoked_at is not None:
            return False
        given = _hash(secret)
        # Others than the newest are looked for only when it is not that one.
        return hmac.compare_digest(stored.secret_hash, given) or any(
            hmac.compare_digest(former.secret_hash, given) for former in self._former(stored.key_id)
        )

    def _former(self, key_id: str) -> list[FormerSecret]:
        return self._database.look(lambda session: keys.former_secrets(session, key_id, self._now()))

    def _find(self, key_id: str, version: Hashable | None) -> StoredKey | None:
        seen, stored = self._seen.get(key_id, (None, None))
        if stored is not None and version is not None and version == seen:
            return stored
        stored = self._database.look(lambda session: keys.find(session, key_id))
        # Keys that are not there are not held: anybody may name as many as they like.
        if stored is not None and version is not None:
            self._seen[key_id] = (version, stored)
        return stored

    def _failed(self, sender: str, key_id: str, message: str) -> Refusal:
        if self._failures.hit(self._limit, sender, key_id):
            return Refusal(401, message)
        window = self._failures.get_window_stats(self._limit, sender, key_id)
        wait_seconds = max(1, math.ceil(window.reset_time - time.time()))
        return Refusal(
            429,
            f"too many requests with wrong keys from {sender}; correct the key and try again in {wait_seconds} s",
            retry_after_seconds=wait_seconds,
        )


@lru_cache(maxsize=64)
def _scopes(words: str) -> frozenset[Scope]:
    return frozenset(map(Scope, words.split()))


def _hash(secret: str) -> bytes:
    # The secret has 256 random bits, so a fast hash is enough: nothing shorter than the secret can be guessed.
    return hashlib.sha256(secret.encode("ascii")).digest()
