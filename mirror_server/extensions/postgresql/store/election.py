"""The PostgreSQL connection with the advisory lock of the leader and the NOTIFY messages of other processes."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import psycopg

from mirror_server.extensions.postgresql.store import processes
from mirror_server.extensions.postgresql.store.connection import (
    CHANNEL,
    END,
    PostgreSQLConnection,
    opened,
    storage_errors,
)
from mirror_server.store.backend import StorageFailed
from mirror_server.store.session import LEADER, Session

_log = logging.getLogger(__name__)

_LEADER_LOCK = 0x6D6972726F7203
_OPTIONS = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
"""Options with which PostgreSQL soon notices that the leader's machine is unreachable."""


class PostgresElection:
    """A connection that marks this process as alive, and holds the lock of the leader.

    After it is opened, it raises only StorageFailed.

    Args:
        url: The database.
        process_id: The id of this process.

    Attributes:
        token: The token that is stored while this process is the leader; otherwise empty.

    Raises:
        DatabaseError: The database cannot be opened.
    """

    def __init__(self, url: str, process_id: str) -> None:
        self.process_id = process_id
        self.token = ""
        self._url = url
        self._connection = opened(url)
        self._prepare()

    def try_lock(self) -> bool:
        """Try to acquire the lock of the leader. Return whether it was free."""
        with storage_errors():
            is_free = self._connection.execute("SELECT pg_try_advisory_lock(:lock)", {"lock": _LEADER_LOCK}).fetchone()
        return bool(is_free[0])

    def unlock(self) -> None:
        """Release the lock."""
        try:
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:
            _log.debug("the lock was released with the connection", exc_info=True)

    def leader_token(self) -> str | None:
        """Return the token that the leader stored, or ``None`` if there never was a leader."""
        with storage_errors():
            return Session(self._connection).setting(LEADER)

    def listen(self) -> None:
        """Start to receive messages."""
        with storage_errors():
            self._connection.run(f"LISTEN {CHANNEL}")

    def messages(self, seconds: float) -> Iterator[list[str]]:
        """Yield the messages of other processes for this time, grouped by NOTIFY payload."""
        with storage_errors():
            for payload in self._connection.notifications(seconds):
                sender, *messages = payload.split("\n")
                if sender != self.process_id:
                    yield messages
                elif END in messages:
                    return

    def end_messages(self) -> None:
        """End :meth:`messages` early."""
        payload = f"{self.process_id}\n{END}"
        try:
            # On a separate connection, because the thread of :meth:`messages` waits on the other one.
            connection = PostgreSQLConnection(self._url)
            connection.execute("SELECT pg_notify(:channel, :payload)", {"channel": CHANNEL, "payload": payload})
            connection.close()
        except (psycopg.Error, StorageFailed):
            _log.debug("the wait for messages could not be ended early", exc_info=True)

    def reconnect(self) -> bool:
        """Connect again, without the lock. Return whether the database responds."""
        try:
            self._connection = PostgreSQLConnection(self._url)
            self._prepare()
        except (psycopg.Error, StorageFailed):
            return False
        return True

    def close(self) -> None:
        """Close the connection, which releases the lock."""
        self._connection.close()

    def _prepare(self) -> None:
        self._connection.run(_OPTIONS)
        processes.hold_liveness_lock(Session(self._connection), self.process_id)
