"""Access keys: one key is one application. Only a hash of the secret is stored."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.core.instants import Instant
from mirror_server.store.session import Session

_COLUMNS = "key_id, name, secret_hash, scopes, created_at, revoked_at"


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An access key as the database holds it; ``scopes`` are words joined by a space."""

    key_id: str
    name: str
    secret_hash: bytes
    scopes: str
    created_at: Instant
    revoked_at: Instant | None


def insert(session: Session, key: StoredKey) -> None:
    """Add a key."""
    session.run(
        "INSERT INTO access_keys (key_id, name, secret_hash, scopes, created_at)"
        " VALUES (:key_id, :name, :secret_hash, :scopes, :created_at)",
        key_id=key.key_id,
        name=key.name,
        secret_hash=key.secret_hash,
        scopes=key.scopes,
        created_at=key.created_at,
    )


def put(session: Session, key: StoredKey) -> None:
    """Add a key; one with this id that is there gets its secret and its scopes and is in use again."""
    session.run(
        "INSERT INTO access_keys (key_id, name, secret_hash, scopes, created_at)"
        " VALUES (:key_id, :name, :secret_hash, :scopes, :created_at)"
        " ON CONFLICT (key_id) DO UPDATE SET"
        " secret_hash = excluded.secret_hash, scopes = excluded.scopes, revoked_at = NULL",
        key_id=key.key_id,
        name=key.name,
        secret_hash=key.secret_hash,
        scopes=key.scopes,
        created_at=key.created_at,
    )


def find(session: Session, key_id: str) -> StoredKey | None:
    """The key with this id, revoked or not."""
    row = session.row(f"SELECT {_COLUMNS} FROM access_keys WHERE key_id = :key_id", key_id=key_id)
    return StoredKey(*row) if row else None


def list_all(session: Session) -> list[StoredKey]:
    """All keys, the oldest first."""
    return [StoredKey(*row) for row in session.rows(f"SELECT {_COLUMNS} FROM access_keys ORDER BY created_at, key_id")]


def revoke(session: Session, key_id: str, at: Instant) -> bool:
    """Make a key useless from now on; false if there is none with this id that is still in use."""
    changed = session.run(
        "UPDATE access_keys SET revoked_at = :at WHERE key_id = :key_id AND revoked_at IS NULL", key_id=key_id, at=at
    )
    return changed == 1
