"""The stored data of the processes on one database, and the calls that they forward to the leader."""

from __future__ import annotations

from mirror_server.core.timestamps import Instant
from mirror_server.store.session import Session

_ALIVE = 0x6D6972
_LIVENESS_LOCKS = (
    # ``objsubid`` 2 marks advisory locks with two keys.
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid = CAST(:kind AS oid)"
)


def last_group(session: Session, process_id: str) -> int | None:
    """Return the number of the last transaction that a process stored, or ``None`` if it has stored none."""
    number: int | None = session.scalar(
        "SELECT last_group FROM processes WHERE process_id = :process_id", process_id=process_id
    )
    return number


def hold_liveness_lock(session: Session, process_id: str) -> None:
    """Mark a process as alive for as long as the connection of this session is open."""
    session.run("SELECT pg_advisory_lock_shared(CAST(:kind AS int), hashtext(:id))", kind=_ALIVE, id=process_id)


def is_alive(session: Session, process_id: str) -> bool:
    """Return whether a process is connected to the database."""
    return bool(
        session.scalar(
            # ``objid`` is unsigned but ``hashtext`` is signed, so their bits are compared.
            f"SELECT EXISTS ({_LIVENESS_LOCKS} AND CAST(CAST(objid AS bigint) AS bit(32)) ="
            " CAST(CAST(hashtext(:id) AS bigint) AS bit(32)))",
            kind=_ALIVE,
            id=process_id,
        )
    )


def any_alive(session: Session) -> bool:
    """Return whether any server is connected to the database. This reads no table, so it works with any schema."""
    return bool(session.scalar(f"SELECT EXISTS ({_LIVENESS_LOCKS})", kind=_ALIVE))


def forget_before(session: Session, instant: Instant) -> None:
    """Delete the processes that have stored nothing since this time, and the calls that are older."""
    session.run("DELETE FROM processes WHERE stored_at < :instant", instant=instant)
    session.run("DELETE FROM relayed_calls WHERE requested_at < :instant", instant=instant)


def put_call(session: Session, call_id: str, request: bytes, at: Instant) -> None:
    """Store a call for the leader."""
    session.run(
        "INSERT INTO relayed_calls (call_id, requested_at, request) VALUES (:call_id, :at, :request)",
        call_id=call_id,
        at=at,
        request=request,
    )


def call(session: Session, call_id: str) -> bytes | None:
    """Return the request of a call, or ``None`` if the call already has a response or was deleted."""
    request: bytes | None = session.scalar(
        "SELECT request FROM relayed_calls WHERE call_id = :call_id AND response IS NULL", call_id=call_id
    )
    return request


def put_response(session: Session, call_id: str, response: bytes) -> None:
    """Store the response to a call."""
    session.run(
        "UPDATE relayed_calls SET response = :response WHERE call_id = :call_id", call_id=call_id, response=response
    )


def response(session: Session, call_id: str) -> bytes | None:
    """Return the response to a call, or ``None`` if it has not been stored yet."""
    found: bytes | None = session.scalar("SELECT response FROM relayed_calls WHERE call_id = :call_id", call_id=call_id)
    return found


def delete_call(session: Session, call_id: str) -> None:
    """Delete a call and its response."""
    session.run("DELETE FROM relayed_calls WHERE call_id = :call_id", call_id=call_id)
