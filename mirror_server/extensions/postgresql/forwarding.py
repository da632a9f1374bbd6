"""Requests that only the leader can answer, forwarded to it by any other process.

The call is a row of the database, and so is its answer; the processes tell each other where to look.
"""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Protocol

import orjson

from mirror_server.clock import Clock
from mirror_server.core.errors import ApiError
from mirror_server.extensions.postgresql.store import processes
from mirror_server.store.database import Database
from mirror_server.store.session import Session

_CALL = "ask"
"""A call is there for the leader."""

_GONE = "gone"
"""Nobody waits for the answer to a call any more."""

_RESPONSE = "answer"
"""A call is answered."""

_LEADER = "leader"
"""Another process leads from now on."""

_RESUMED = "resumed"
"""The leader missed messages, and goes on: what it was asked meanwhile is to be asked again."""

_TRY_AGAIN_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Call:
    """A request of an application that a process authenticated already; its key is not forwarded.

    The hash of the key's secret is, in hexadecimal digits: the leader checks with it whether the key of a held request
    is still valid.
    """

    process_id: str
    app_id: str
    scopes: Sequence[str]
    method: str
    path: str
    query: str
    headers: Sequence[Sequence[str]]
    address: str
    body: str
    """The body in base64."""
    secret_hash: str = ""

    def to_bytes(self) -> bytes:
        """The bytes that are stored of it."""
        return orjson.dumps(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Call:
        """Make it of the bytes that were stored."""
        return cls(**orjson.loads(data))


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a call."""

    status: int
    headers: Sequence[Sequence[str]]
    body: bytes

    def to_bytes(self) -> bytes:
        """The bytes that are stored of it."""
        body = base64.b64encode(self.body).decode()
        return orjson.dumps({"status": self.status, "headers": self.headers, "body": body})

    @classmethod
    def from_bytes(cls, data: bytes) -> Reply:
        """Make it of the bytes that were stored."""
        stored = orjson.loads(data)
        return cls(stored["status"], stored["headers"], base64.b64decode(stored["body"]))


class Answerer(Protocol):
    """Answers the calls of other processes while this one leads."""

    def ask(self, call_id: str) -> None:
        """A call is there."""
        ...

    def gone(self, call_id: str) -> None:
        """Nobody waits for the answer any more."""
        ...

    def close(self) -> None:
        """Answer no more."""
        ...


class Forwarder:
    """Forwards requests to the leader.

    Args:
        database: What the processes share.
        clock: Domain time.
        is_leader: Whether this process is the one.
    """

    def __init__(self, database: Database, clock: Clock, is_leader: Callable[[], bool]) -> None:
        self.answerer: Answerer | None = None
        self._database = database
        self._clock = clock
        self._is_leader = is_leader
        self._numbers = itertools.count(1)
        self._asked: dict[str, tuple[Call, Future[Reply]]] = {}
        self._lock = threading.Lock()
        database.on(_CALL, self._called)
        database.on(_GONE, self._gone)
        database.on(_RESPONSE, self._collect)
        database.on(_LEADER, self.look_again)
        database.on(_RESUMED, self._ask_all_again)

    @property
    def process_id(self) -> str:
        """This process."""
        return self._database.process_id

    @property
    def is_needed(self) -> bool:
        """Whether another process than this one leads."""
        return not self._is_leader()

    def ask(self, call: Call) -> tuple[str, Future[Reply]]:
        """Forward a call; gives its number and the future of its answer.

        The future raises a ApiError (503) when the leader ends before it answers, and
        :class:`~mirror_server.store.backend.StorageFailed` when the call cannot be stored.
        """
        call_id = f"{self._database.process_id}-{next(self._numbers)}"
        future: Future[Reply] = Future()
        with self._lock:
            self._asked[call_id] = (call, future)

        def work(session: Session) -> None:
            processes.put_call(session, call_id, call.to_bytes(), self._clock.now())
            session.publish(_CALL, call_id)

        stored = self._database.submit(work, conflict_keys=(call_id,))
        stored.add_done_callback(lambda stored: self._note_stored(call_id, stored))
        return call_id, future

    def forget(self, call_id: str) -> None:
        """Nobody waits for the answer any more."""
        with self._lock:
            known = self._asked.pop(call_id, None)
        if known is not None:
            self._delete(call_id, _GONE)

    def answered(self, session: Session, call_id: str, reply: Reply) -> None:
        """Store the answer of a call, and tell who asked."""
        processes.put_response(session, call_id, reply.to_bytes())
        session.publish(_RESPONSE, call_id)

    def tell_leader(self) -> None:
        """Signal that this process leads now; what was asked of another one is not answered."""
        self._database.submit(lambda session: session.publish(_LEADER))

    def tell_resumed(self) -> None:
        """Signal that this process leads on, and may have missed what the others asked it."""
        self._database.submit(lambda session: session.publish(_RESUMED), conflict_keys=())

    def look_again(self, *_: str) -> None:
        """Another process may lead, or messages were missed: take the answers that are there, and ask again.

        What changes something may have been done already: who asked is told to look, and does not get it done twice.
        """
        with self._lock:
            asked = dict(self._asked)
        for call_id, (call, future) in asked.items():
            if not self._take_response(call_id):
                if call.method == "GET" and self.is_needed:
                    self._ask_again(call_id)
                else:
                    self._end(call_id, future)

    def _ask_all_again(self, *_: str) -> None:
        # The leader is the one of before: what it knows of, it begins no second time, whatever is asked for.
        with self._lock:
            asked = list(self._asked)
        for call_id in asked:
            if not self._take_response(call_id):
                self._ask_again(call_id)

    def _ask_again(self, call_id: str) -> None:
        self._database.submit(lambda session: session.publish(_CALL, call_id), conflict_keys=())

    def _end(self, call_id: str, future: Future[Reply]) -> None:
        with self._lock:
            self._asked.pop(call_id, None)
        with suppress(InvalidStateError):
            future.set_exception(leader_changed())
        self._delete(call_id)

    def _called(self, *call_ids: str) -> None:
        if self.answerer is not None and not self.is_needed:
            for call_id in call_ids:
                self.answerer.ask(call_id)

    def _gone(self, *call_ids: str) -> None:
        if self.answerer is not None and not self.is_needed:
            for call_id in call_ids:
                self.answerer.gone(call_id)

    def _collect(self, *call_ids: str) -> None:
        for call_id in call_ids:
            self._take_response(call_id)

    def _take_response(self, call_id: str) -> bool:
        with self._lock:
            known = self._asked.get(call_id)
        if known is None:
            return False
        response = self._database.query(lambda session: processes.response(session, call_id))
        if response is None:
            return False
        with self._lock:
            self._asked.pop(call_id, None)
        with suppress(InvalidStateError):
            known[1].set_result(Reply.from_bytes(response))
        self._delete(call_id)
        return True

    def _delete(self, call_id: str, signal: str | None = None) -> None:
        def work(session: Session) -> None:
            processes.delete_call(session, call_id)
            if signal is not None:
                session.publish(signal, call_id)

        self._database.submit(work, conflict_keys=(call_id,))

    def _note_stored(self, call_id: str, stored: Future[None]) -> None:
        error = stored.exception()
        if error is not None:
            with self._lock:
                known = self._asked.pop(call_id, None)
            if known is not None:
                with suppress(InvalidStateError):
                    known[1].set_exception(error)


def leader_changed() -> ApiError:
    """The refusal of what was forwarded to a process that leads no more."""
    return ApiError(
        503,
        "the process that holds the devices and channels changed meanwhile; what was asked for may have been done, so"
        " look before you repeat it",
        retry_after_seconds=_TRY_AGAIN_SECONDS,
    )
