"""What processes elect their leader by, an advisory lock, and how they send each other messages, NOTIFY."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import psycopg

from mirror_server.extensions.postgresql.store import processes
from mirror_server.extensions.postgresql.store.connection import CHANNEL, END, PostgreSQLConnection, opened, told
from mirror_server.store.backend import StorageFailed
from mirror_server.store.session import LEADER, Session

_log = logging.getLogger(__name__)

_LEADER_LOCK = 0x6D6972726F7203
_OPTIONS = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
"""PostgreSQL is to notice soon that the machine of the leader is gone."""


class PostgresElection:
    """A connection of its own, which holds the lock of the leader; it raises StorageFailed alone once it is open.

    Args:
        url: The database.
        process_id: This process, as its transactions know it.

    Attributes:
        token: What is stored while this process is the leader; empty while it is not.

    Raises:
        DatabaseError: The database cannot be opened.
    """

    def __init__(self, url: str, process_id: str) -> None:
        self.process_id = process_id
        self.token = ""
        self._url = url
        self._connection = opened(url)
        self._connection.run(_OPTIONS)

    def try_lock(self) -> bool:
        """Take the lock that one process at a time has; gives whether it was free."""
        with told():
            taken = self._connection.execute("SELECT pg_try_advisory_lock(:lock)", {"lock": _LEADER_LOCK}).fetchone()
        return bool(taken[0])

    def unlock(self) -> None:
        """Give the lock back."""
        try:
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:
            _log.debug("the lock went with the connection", exc_info=True)

    def leader_token(self) -> str | None:
        """The token that the leader stored; ``None`` where there never was one."""
        with told():
            return Session(self._connection).setting(LEADER)

    def listen(self) -> None:
        """Begin to receive messages, and let them see that this process is alive."""
        with told():
            self._connection.run(f"LISTEN {CHANNEL}")
            processes.hold_liveness_lock(Session(self._connection), self.process_id)

    def messages(self, seconds: float) -> Iterator[list[str]]:
        """The messages of the others, for so long; those that one transaction sent together as far as they may be."""
        with told():
            for payload in self._connection.notifications(seconds):
                sender, *messages = payload.split("\n")
                if sender != self.process_id:
                    yield messages
                elif END in messages:
                    return

    def end_messages(self) -> None:
        """End the wait for messages before its time."""
        payload = f"{self.process_id}\n{END}"
        try:
            connection = PostgreSQLConnection(self._url)
            connection.execute("SELECT pg_notify(:channel, :payload)", {"channel": CHANNEL, "payload": payload})
            connection.close()
        except (psycopg.Error, StorageFailed):
            _log.debug("nobody could be told that this process ends", exc_info=True)

    def reconnect(self) -> bool:
        """Connect anew, without the lock; gives whether the database answers."""
        try:
            self._connection = PostgreSQLConnection(self._url)
            self._connection.run(_OPTIONS)
        except (psycopg.Error, StorageFailed):
            return False
        return True

    def close(self) -> None:
        """Close the connection; the lock goes with it."""
        self._connection.close()
