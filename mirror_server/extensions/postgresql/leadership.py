"""Starts and stops the leader's work in this process, and dispatches the signals of the other processes.

The advisory lock and its connection are in ``store.election``; this module decides what to do with them.
The leader connects to devices, delivers webhooks and handles expiry. The process that holds the advisory lock becomes
the leader. When that process ends, PostgreSQL grants the lock to another one. After a lost connection, the former
leader continues if no other process has become the leader. Otherwise its pending writes are dropped, because every
transaction checks the leader's token.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid

from mirror_server.extensions.postgresql.forwarding import Forwarder
from mirror_server.extensions.postgresql.store.connection import reason_of
from mirror_server.extensions.postgresql.store.election import PostgresElection
from mirror_server.server import Services
from mirror_server.store.backend import DatabaseError, StorageFailed
from mirror_server.store.database import Database
from mirror_server.store.session import LEADER, Session

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_CONNECT_AGAIN_SECONDS = 0.5
_GRACE_SECONDS = 3.0
"""The time that the leader has to reconnect after an interruption, before another process becomes the leader."""

_FIRST_SECONDS = 120


class Leadership:
    """The participation of this process in the election of the leader.

    A separate thread receives the signals of the other processes. It makes this process the leader when the former
    leader has ended.

    Args:
        election: The connection with the lock of the leader and the messages of other processes.
        url: The URL of the database, without its password.
        database: The database of all processes.
        options: The options that all processes must have in common, as words of a message.
        is_alone: Whether this process must be the only one on the database.

    Raises:
        DatabaseError: Another process serves the database, and its options differ or this process must be the only one.
    """

    def __init__(
        self,
        election: PostgresElection,
        url: str,
        database: Database,
        *,
        options: str,
        is_alone: bool,
    ) -> None:
        self._election = election
        self._url = url
        self._database = database
        self._options = options
        self._is_closing = threading.Event()
        self._has_joined = threading.Event()
        self._try_at = 0.0
        self._holds_lock = election.try_lock()
        if not self._holds_lock:
            self._check(is_alone=is_alone)
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)

    def start(self, services: Services, forwarder: Forwarder) -> None:
        """Start to take part in the election. Return when this process knows whether it is the leader.

        Raises:
            DatabaseError: The database does not respond.
        """
        self._services = services
        self._forwarder = forwarder
        self._thread.start()
        if not self._has_joined.wait(_FIRST_SECONDS):
            raise DatabaseError(f"the database {self._url} does not respond; start again when it does")

    @property
    def token(self) -> str:
        """The token of this process as the leader; empty if it is not the leader, to its own knowledge."""
        return self._election.token

    def stop(self) -> None:
        """Stop receiving signals. No other process becomes the leader before :meth:`close`."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._election.end_messages()
            self._thread.join()

    def close(self) -> None:
        """Release the lock, so that another process can become the leader."""
        self._election.unlock()
        self._election.close()

    def _check(self, *, is_alone: bool) -> None:
        token = self._election.leader_token()
        others = self._options if token is None else token.partition(" ")[2]
        if others != self._options:
            self._election.close()
            raise DatabaseError(
                f"another process serves the database {self._url} with other options: {_option_names(others)}; this"
                f" process has: {_option_names(self._options)}. Start all processes with the same --simulate, --clock,"
                " --coap, --coaps and --keep-history. With --clock manual, start only one process"
            )
        if is_alone:
            self._election.close()
            raise DatabaseError(
                f"another process serves the database {self._url}; with --clock manual, start only one process"
            )

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                self._participate()
            except Exception as error:
                # The thread must continue after any error. Without it, this process could neither lead nor receive
                # messages.
                if not isinstance(error, StorageFailed):
                    _log.exception("an error interrupted the coordination with other processes; reconnecting")
                self._interrupted(error)
            while not self._is_closing.is_set() and not self._reconnect():
                self._is_closing.wait(_CONNECT_AGAIN_SECONDS)

    def _participate(self) -> None:
        # Listen before the state is read, so that no message is missed in between.
        self._election.listen()
        if self._holds_lock:
            self._lead()
        self._services.resync()
        self._forwarder.recover()
        while not self._is_closing.is_set():
            if not self._holds_lock and time.monotonic() >= self._try_at:
                self._try_to_lead()
            self._has_joined.set()
            for messages in self._election.messages(_POLL_SECONDS):
                self._receive(messages)

    def _try_to_lead(self) -> None:
        """Try to acquire the lock of the leader, and start or stop leading according to the result."""
        self._holds_lock = self._election.try_lock()
        if self._holds_lock:
            self._lead()
        elif self.token:
            # Another process acquired the lock during the interruption.
            self._stop_leading()

    def _lead(self) -> None:
        """Become the leader, or continue as the leader. The caller has acquired the lock."""
        if self.token:
            if self._election.leader_token() == self._election.token:
                self._services.resume_leading()
                self._forwarder.announce_leader()
                return
            self._stop_leading()
        token = f"{self._election.process_id}-{uuid.uuid4().hex} {self._options}"
        # Set the token before it is stored, because only the leader may store it.
        self._election.token = token

        def work(session: Session) -> None:
            session.put_setting(LEADER, token)

        try:
            # This write runs alone. When it is committed, all transactions of the former leader have ended. The work
            # ``by_leader`` that the former leader submits later fails, because its token differs.
            self._database.write(work)
            self._services.become_leader()
            self._forwarder.announce_leader()
        except BaseException:
            # Without this, the token would mark this process as the leader although the leader's work did not start.
            self._stop_leading()
            raise

    def _stop_leading(self) -> None:
        self._election.token = ""
        self._services.stop_leading()

    def _receive(self, messages: list[str]) -> None:
        """Handle signals of another process. Each consists of a kind, a space and a subject."""
        received: dict[str, list[str]] = {}
        for message in messages:
            kind, _, subject = message.partition(" ")
            received.setdefault(kind, []).append(subject)
        try:
            for kind, handler in self._database.backend.writing.handlers.items():
                if kind in received:
                    handler(*received[kind])
        except StorageFailed:
            # The connection that delivers these messages is lost too, and everything is read again after the reconnect.
            _log.debug("the connection was lost while messages of another process were handled", exc_info=True)

    def _interrupted(self, error: Exception) -> None:
        self._election.close()
        self._holds_lock = False
        if not self._is_closing.is_set():
            _log.warning("the database does not respond (%s); retrying until it does", reason_of(error))
        # The token stays set. If no other process becomes the leader in the meantime, this process continues with it.
        self._services.pause_leading()

    def _reconnect(self) -> bool:
        if not self._election.reconnect():
            return False
        # The former leader tries immediately, and the other processes a moment later. So a short interruption does not
        # change the leader.
        self._try_at = time.monotonic() + (0 if self.token else _GRACE_SECONDS)
        _log.warning("the database responds again")
        return True


def _option_names(options: str) -> str:
    """Return the options in the style of the command line.

    The words of the token stay the same, so that servers of different versions can share a database.

    >>> _option_names("without --simulate and by the clock of the system, with --keep-history")
    '--clock system, --keep-history'
    """
    phrases = options.replace("by the clock of the system", "with --clock system").replace(" and ", ", ").split(", ")
    return ", ".join(phrase.removeprefix("with ") for phrase in phrases if not phrase.startswith("without "))
