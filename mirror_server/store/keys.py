"""The statements for access keys. Each key identifies one application. Only a hash of the secret is stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Session


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A stored access key. ``scopes`` contains the names of the scopes, separated by spaces."""

    key_id: str
    name: str
    secret_hash: bytes
    scopes: str
    created_at: Instant
    revoked_at: Instant | None


_COLUMNS = ", ".join(StoredKey.__slots__)


@dataclass(frozen=True, slots=True)
class FormerSecret:
    """A previous secret of a renewed key. It is valid until ``ends_at``."""

    secret_hash: bytes
    ends_at: Instant


def put(session: Session, key: StoredKey) -> None:
    """Store a key.

    If a key with this id exists, its secret is replaced, its former secrets are deleted, and it is no longer revoked.
    """
    _end_former(session, key.key_id)
    session.run(
        "INSERT INTO access_keys (key_id, name, secret_hash, scopes, created_at)"
        " VALUES (:key_id, :name, :secret_hash, :scopes, :created_at)"
        " ON CONFLICT (key_id) DO UPDATE SET"
        " secret_hash = excluded.secret_hash, scopes = excluded.scopes, revoked_at = NULL",
        **asdict(key),
    )


def find(session: Session, key_id: str) -> StoredKey | None:
    """Return the key with this id, whether or not it is revoked."""
    row = session.row(f"SELECT {_COLUMNS} FROM access_keys WHERE key_id = :key_id", key_id=key_id)
    return StoredKey(*row) if row else None


def list_all(session: Session) -> list[StoredKey]:
    """Return all keys, oldest first."""
    return [StoredKey(*row) for row in session.rows(f"SELECT {_COLUMNS} FROM access_keys ORDER BY created_at, key_id")]


def revoke(session: Session, key_id: str, at: Instant) -> bool:
    """Revoke a key. Return false if no key in use has this id."""
    _end_former(session, key_id)
    changed = session.run(
        "UPDATE access_keys SET revoked_at = :at WHERE key_id = :key_id AND revoked_at IS NULL", key_id=key_id, at=at
    )
    return changed == 1


def renew(session: Session, key_id: str, secret_hash: bytes, at: Instant, ends_at: Instant) -> None:
    """Replace the secret of a key. The previous secrets stay valid until ``ends_at``, or end earlier."""
    session.run(
        "INSERT INTO former_secrets (key_id, secret_hash, ends_at)"
        " SELECT key_id, secret_hash, :ends_at FROM access_keys WHERE key_id = :key_id",
        key_id=key_id,
        ends_at=ends_at,
    )
    session.run(
        "UPDATE former_secrets SET ends_at = :ends_at WHERE key_id = :key_id AND ends_at > :ends_at",
        key_id=key_id,
        ends_at=ends_at,
    )
    session.run("DELETE FROM former_secrets WHERE key_id = :key_id AND ends_at <= :at", key_id=key_id, at=at)
    session.run(
        "UPDATE access_keys SET secret_hash = :secret_hash WHERE key_id = :key_id",
        key_id=key_id,
        secret_hash=secret_hash,
    )


def former_secrets(session: Session, key_id: str, at: Instant) -> list[FormerSecret]:
    """Return the previous secrets of a key that are still valid. The secret that stays valid longest comes first."""
    rows = session.rows(
        "SELECT secret_hash, ends_at FROM former_secrets WHERE key_id = :key_id AND ends_at > :at"
        " ORDER BY ends_at DESC",
        key_id=key_id,
        at=at,
    )
    return [FormerSecret(bytes(secret_hash), ends_at) for secret_hash, ends_at in rows]


def _end_former(session: Session, key_id: str) -> None:
    session.run("DELETE FROM former_secrets WHERE key_id = :key_id", key_id=key_id)
