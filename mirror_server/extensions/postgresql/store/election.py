"""The PostgreSQL connection that holds the lock of the leader and receives the NOTIFY messages of other processes."""

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
"""Settings that make PostgreSQL notice quickly when the leader's machine is unreachable."""


class PostgresElection:
    """A connection that marks this process as alive, competes for the lock of the leader, and receives messages.

    After the connection was opened, its methods raise only :class:`StorageFailed`.

    Args:
        url: The URL of the database.
        process_id: The id of this process.

    Attributes:
        token: The token that the database stores while this process is the leader. Otherwise it is empty.

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
        """Try to acquire the lock of the leader. Return whether this process has it now."""
        with storage_errors():
            is_free = self._connection.execute("SELECT pg_try_advisory_lock(:lock)", {"lock": _LEADER_LOCK}).fetchone()
        return bool(is_free[0])

    def unlock(self) -> None:
        """Release the lock of the leader."""
        try:
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:
            _log.debug("the lock was released with the connection", exc_info=True)

    def leader_token(self) -> str | None:
        """Return the token of the current or last leader, or ``None`` if there never was a leader."""
        with storage_errors():
            return Session(self._connection).setting(LEADER)

    def listen(self) -> None:
        """Start to receive the messages of other processes."""
        with storage_errors():
            self._connection.run(f"LISTEN {CHANNEL}")

    def messages(self, seconds: float) -> Iterator[list[str]]:
        """Yield the messages that arrive within this number of seconds, as one list for each NOTIFY payload."""
        with storage_errors():
            for payload in self._connection.notifications(seconds):
                sender, *messages = payload.split("\n")
                if sender != self.process_id:
                    yield messages
                elif END in messages:
                    return

    def end_messages(self) -> None:
        """Make :meth:`messages` return early."""
        payload = f"{self.process_id}\n{END}"
        try:
            # A separate connection is needed, because the thread of :meth:`messages` is waiting on the other one.
            connection = PostgreSQLConnection(self._url)
            connection.execute("SELECT pg_notify(:channel, :payload)", {"channel": CHANNEL, "payload": payload})
            connection.close()
        except (psycopg.Error, StorageFailed):
            _log.debug("the wait for messages could not be ended early", exc_info=True)

    def reconnect(self) -> bool:
        """Connect again, without acquiring the lock. Return whether the database responds."""
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
