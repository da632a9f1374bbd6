"""Recognising access keys. Source: wire.md 0.

Who fails again and again is told 429 for a while. The right key is always let in, also where somebody else failed with
its id, which is no secret: 256 random bits are not guessed, and to be slowed down is for who does not have them.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import time
from collections.abc import Callable, Hashable
from functools import lru_cache

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from mirror_server.clock import wall_time
from mirror_server.core.errors import Refusal
from mirror_server.core.instants import Instant
from mirror_server.service.keys import KEY_FORM, Scope, hash_of
from mirror_server.store import keys
from mirror_server.store.database import Database
from mirror_server.store.keys import FormerSecret, StoredKey

_BEARER = re.compile(r"bearer +(\S+) *\Z", re.IGNORECASE)
_MALFORMED = "malformed access key; a key begins with ak_ and is shown when it is created"
_UNKNOWN = "unknown or revoked access key; an operator makes one with 'mirror-server keys create NAME'"
_NO_HASH = bytes(hashlib.sha256().digest_size)


class Authenticator:
    """Recognises keys, and slows down who guesses them.

    Args:
        database: Where the keys are.
        failures_per_minute: How often one client may fail with one key, or with keys that do not exist.
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
        self, authorization: str | None, client: Callable[[], str], version: Hashable | None = None
    ) -> tuple[str, frozenset[Scope]]:
        """The application behind an ``Authorization`` header and what its key may be used for.

        Args:
            authorization: The header.
            client: Tells the client's address; asked only when the key is wrong.
            version: That of the database, asked for since the request came; a key is looked up once for each.

        Raises:
            Refusal: The header is missing or malformed, or the key unknown or revoked (401), or one that is there
                was wrong too often (429).
        """
        bearer = _BEARER.match(authorization or "")
        if bearer is None:
            raise Refusal(401, "no access key; send the header 'Authorization: Bearer <key>'")
        parts = KEY_FORM.fullmatch(bearer[1])
        if parts is None:
            raise self._failed(client(), "", _MALFORMED)
        key_id = parts[1]
        stored = self._find(key_id, version)
        if stored is None:
            hmac.compare_digest(_NO_HASH, hash_of(parts[2]))
            raise self._failed(client(), "", _UNKNOWN)
        if not self._is_good(stored, hash_of(parts[2])):
            raise self._failed(client(), stored.key_id, _UNKNOWN)
        return stored.key_id, _scopes(stored.scopes)

    def still_admits(self, authorization: str | None, version: Hashable | None = None) -> bool:
        """Whether a header that was valid is valid at this moment; failures are not counted.

        Args:
            authorization: The header.
            version: That of the database, read a moment ago; without it, it is read now.
        """
        parts = _sent_key(authorization)
        return parts is not None and self.is_valid(parts[1], hash_of(parts[2]), version)

    def is_valid(self, key_id: str, secret_hash: bytes, version: Hashable | None = None) -> bool:
        """Whether the secret with this hash is one of the key at this moment; see :meth:`still_admits`."""
        stored = self._find(key_id, version or self._database.version())
        return stored is not None and self._is_good(stored, secret_hash)

    def _is_good(self, stored: StoredKey, given: bytes) -> bool:
        if stored.revoked_at is not None:
            return False
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

    def _failed(self, client: str, key_id: str, message: str) -> Refusal:
        if self._failures.hit(self._limit, client, key_id):
            return Refusal(401, message)
        window = self._failures.get_window_stats(self._limit, client, key_id)
        wait_seconds = max(1, math.ceil(window.reset_time - time.time()))
        return Refusal(
            429,
            f"too many requests with wrong keys from {client}; correct the key and try again in {wait_seconds} s",
            retry_after_seconds=wait_seconds,
        )


def sent_secret_hash(authorization: str | None) -> bytes:
    """The hash of the secret in an ``Authorization`` header; empty where there is no key in it."""
    parts = _sent_key(authorization)
    return b"" if parts is None else hash_of(parts[2])


def _sent_key(authorization: str | None) -> re.Match[str] | None:
    bearer = _BEARER.match(authorization or "")
    return KEY_FORM.fullmatch(bearer[1]) if bearer else None


@lru_cache(maxsize=64)
def _scopes(names: str) -> frozenset[Scope]:
    return frozenset(map(Scope, names.split()))
