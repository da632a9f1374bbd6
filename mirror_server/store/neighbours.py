"""The other processes on the same PostgreSQL database: hearing them, and having one of all on duty.

The process on duty holds the devices, delivers the webhooks and looks after what becomes due. It is the one with an
advisory lock, which PostgreSQL gives to another as soon as its process is gone. A process that was only cut off for a
while goes on where it was if nobody took over; where somebody did, what it still wanted to store is dropped, because
every transaction looks at the token of the process on duty.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid

import psycopg

from mirror_server.store import processes
from mirror_server.store.backend import Colleague, Member, Write
from mirror_server.store.connection import CHANNEL, END, Connection, is_of_storage, opened, reason_of
from mirror_server.store.failures import DatabaseError, StorageFailed
from mirror_server.store.session import Session
from mirror_server.store.url import shown

_log = logging.getLogger(__name__)

_DUTY_LOCK = 0x6D6972726F7203
_LOOK_SECONDS = 0.5
_CONNECT_AGAIN_SECONDS = 0.5
_OPTIONS = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
"""PostgreSQL is to notice soon that the machine of the process on duty is gone."""

_GRACE_SECONDS = 3.0
"""After an interruption the process that was on duty is given so long to come back before another takes over."""

_FIRST_SECONDS = 120


class Neighbours:
    """Hears the other processes on a thread of its own, and takes over when the one on duty is gone.

    Args:
        url: The database.
        member: This process, as its transactions know it.
        write: Stores something and waits until it is on disk.
        options: What all processes must have in common, in words for a message.
        is_alone: Whether this process can be the only one.

    Raises:
        DatabaseError: Processes that cannot work together with this one serve the database.
    """

    def __init__(self, url: str, member: Member, write: Write, *, options: str, is_alone: bool) -> None:
        self._url = url
        self._member = member
        self._write = write
        self._options = options
        self._is_closing = threading.Event()
        self._attended = threading.Event()
        self._colleague: Colleague
        self._try_at = 0.0
        self._connection = opened(url)
        self._connection.run(_OPTIONS)
        self._holds_lock = self._lock()
        member.duty_token = ""
        if not self._holds_lock:
            self._check(is_alone=is_alone)
        self._thread = threading.Thread(target=self._run, name="neighbours", daemon=True)

    def start(self, colleague: Colleague) -> None:
        """Begin to listen; returns when this process is on duty, or knows that another one is."""
        self._colleague = colleague
        self._thread.start()
        if not self._attended.wait(_FIRST_SECONDS):
            raise DatabaseError(f"the database {shown(self._url)} does not answer; start again when it does")

    @property
    def is_on_duty(self) -> bool:
        """Whether this process is on duty, as far as it knows."""
        return bool(self._member.duty_token)

    def stop(self) -> None:
        """Listen no more; until it is closed no other process takes over."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._say_end()
            self._thread.join()

    def close(self) -> None:
        """Let another process take over."""
        self._unlock()
        self._connection.close()

    def _say_end(self) -> None:
        """Hearing itself, the thread need not wait for its time to be over."""
        payload = f"{self._member.process_id}\n{END}"
        try:
            connection = Connection(self._url)
            connection.execute("SELECT pg_notify(:channel, :payload)", {"channel": CHANNEL, "payload": payload})
            connection.close()
        except (psycopg.Error, StorageFailed):
            _log.debug("nobody could be told that this process ends", exc_info=True)

    def _check(self, *, is_alone: bool) -> None:
        row = self._connection.execute("SELECT value FROM settings WHERE name = 'duty'").fetchone()
        others = row[0].partition(" ")[2] if row else self._options
        if is_alone or others != self._options:
            self._connection.close()
            raise DatabaseError(
                f"another process serves the database {shown(self._url)} {others}, this one is to do so"
                f" {self._options}; start all processes with the same --simulate and --clock, and with"
                " --clock manual one only"
            )

    def _lock(self) -> bool:
        return bool(self._connection.execute("SELECT pg_try_advisory_lock(:lock)", {"lock": _DUTY_LOCK}).fetchone()[0])

    def _unlock(self) -> None:
        try:
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        except psycopg.Error:
            _log.debug("the lock went with the connection", exc_info=True)

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                self._attend()
            except Exception as error:
                if not is_of_storage(error):
                    _log.exception("this process could not work with the others on its database")
                self._interrupted(error)
            while not self._is_closing.is_set() and not self._reconnect():
                self._is_closing.wait(_CONNECT_AGAIN_SECONDS)

    def _attend(self) -> None:
        self._connection.run(f"LISTEN {CHANNEL}")
        processes.show_alive(Session(self._connection), self._member.process_id)
        if self._holds_lock:
            self._on_lock()
        self._colleague.look_around()
        while not self._is_closing.is_set():
            if not self._holds_lock and time.monotonic() >= self._try_at:
                self._seek_duty()
            self._attended.set()
            self._listen()

    def _seek_duty(self) -> None:
        self._holds_lock = self._lock()
        if self._holds_lock:
            self._on_lock()
        elif self.is_on_duty:
            self._give_up()

    def _on_lock(self) -> None:
        """The lock is held: go on with the duty of before, or take over."""
        if self.is_on_duty:
            row = self._connection.execute("SELECT value FROM settings WHERE name = 'duty'").fetchone()
            if row and row[0] == self._member.duty_token:
                self._colleague.resume_duty()
                return
            self._give_up()
        token = f"{self._member.process_id}-{uuid.uuid4().hex} {self._options}"
        self._member.duty_token = token

        def work(session: Session) -> None:
            processes.put_duty(session, token)

        try:
            self._write(work)
            self._colleague.take_duty()
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        self._member.duty_token = ""
        self._colleague.give_up_duty()

    def _listen(self) -> None:
        for payload in self._connection.notifications(_LOOK_SECONDS):
            sender, *words = payload.split("\n")
            if sender != self._member.process_id:
                for word in words:
                    self._hear(word)
            elif END in words:
                return

    def _hear(self, word: str) -> None:
        try:
            self._colleague.hear(word)
        except StorageFailed:
            # The connection this word came by is lost as well, and afterwards everything is looked at.
            _log.debug("a word of another process came while the database went", exc_info=True)

    def _interrupted(self, error: Exception) -> None:
        self._connection.close()
        self._holds_lock = False
        if not self._is_closing.is_set():
            _log.warning("the database does not answer (%s); trying again until it does", reason_of(error))
        self._colleague.pause_duty()

    def _reconnect(self) -> bool:
        try:
            self._connection = Connection(self._url)
            self._connection.run(_OPTIONS)
        except (psycopg.Error, StorageFailed):
            return False
        # Who was on duty tries at once.
        self._try_at = time.monotonic() + (0 if self.is_on_duty else _GRACE_SECONDS)
        _log.warning("the database answers again")
        return True
