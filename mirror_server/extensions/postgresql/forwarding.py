"""The forwarding of requests that only the leader can serve.

A call is such a request, together with its sender. The call and its response are stored in one row of the database. The
processes notify each other when the row changes.
"""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Protocol

import orjson

from mirror_server.clock import Clock
from mirror_server.core.errors import ApiError
from mirror_server.extensions.postgresql.store import processes
from mirror_server.store.database import Database
from mirror_server.store.session import LEADER, Session

_CALL = "call"
"""The signal that a call was sent to a leader. Only this leader processes it, and only if it still is the leader."""

_CANCELED = "canceled"
"""The signal that the response to a call is no longer needed."""

_RESPONSE = "response"
"""The signal that the response to a call was stored."""

_LEADER = "leader"
"""The signal that another process has become the leader, or that the leader may have missed signals."""

_TRY_AGAIN_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Call:
    """A request of an application, forwarded by the process that authenticated it. The key itself is not forwarded.

    ``secret_hash`` is the hash of the key's secret in hexadecimal digits. When the leader creates a deferred response,
    it uses the hash to check whether the key is still valid.
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
    """The body of the request in base64."""
    secret_hash: str = ""

    def to_bytes(self) -> bytes:
        """Serialize the call as JSON."""
        return orjson.dumps(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Call:
        """Deserialize a call from JSON."""
        return cls(**orjson.loads(data))


@dataclass(frozen=True, slots=True)
class Reply:
    """The response of the leader to a call."""

    status: int
    headers: Sequence[Sequence[str]]
    body: bytes

    def to_bytes(self) -> bytes:
        """Serialize the response as JSON."""
        body = base64.b64encode(self.body).decode()
        return orjson.dumps({"status": self.status, "headers": self.headers, "body": body})

    @classmethod
    def from_bytes(cls, data: bytes) -> Reply:
        """Deserialize a response from JSON."""
        stored = orjson.loads(data)
        return cls(stored["status"], stored["headers"], base64.b64decode(stored["body"]))


class Responder(Protocol):
    """The interface of an object that responds to the calls of other processes while this process is the leader."""

    def handle(self, call_id: str) -> None:
        """Process a new call."""
        ...

    def cancel(self, call_id: str) -> None:
        """Stop processing a call, because its response is no longer needed."""
        ...

    def close(self) -> None:
        """Stop responding to calls."""
        ...


@dataclass(slots=True)
class _Pending:
    """A call without a response.

    Attributes:
        call: The call.
        future: The future of its response.
        leader: The token of the leader to which the call was last sent. It is ``None`` before that, and if there was
            none.
    """

    call: Call
    future: Future[Reply] = field(default_factory=Future)
    leader: str | None = None


class Forwarder:
    """Forwards requests to the leader.

    Args:
        database: The database of all processes.
        clock: The clock of the server.
        token: A function that returns the token of this process as the leader, or an empty string if it is not the
            leader.
    """

    def __init__(self, database: Database, clock: Clock, token: Callable[[], str]) -> None:
        self.responder: Responder | None = None
        self._database = database
        self._clock = clock
        self._token = token
        self._numbers = itertools.count(1)
        self._pending: dict[str, _Pending] = {}
        self._lock = threading.Lock()
        database.on(_CALL, self._handle_calls)
        database.on(_CANCELED, self._cancel_calls)
        database.on(_RESPONSE, self._collect)
        database.on(_LEADER, self.recover)

    @property
    def process_id(self) -> str:
        """The id of this process."""
        return self._database.process_id

    @property
    def is_needed(self) -> bool:
        """Whether another process is the leader."""
        return not self._token()

    def forward(self, call: Call) -> tuple[str, Future[Reply]]:
        """Forward a call. Return its id and the future of its response.

        The future raises an ApiError (503) if the leader ends before it responds. It raises
        :class:`~mirror_server.store.backend.StorageFailed` if the call cannot be stored.
        """
        call_id = f"{self._database.process_id}-{next(self._numbers)}"
        pending = _Pending(call)
        with self._lock:
            # Register the call before it is stored, because the response may arrive before the result of storing it.
            self._pending[call_id] = pending

        def work(session: Session) -> None:
            processes.put_call(session, call_id, call.to_bytes(), self._clock.now())
            _send(session, call_id, pending)

        stored = self._database.submit(work, conflict_keys=(call_id,))
        stored.add_done_callback(lambda stored: self._note_stored(call_id, stored))
        return call_id, pending.future

    def forget(self, call_id: str) -> None:
        """Cancel a call whose client has disconnected or whose time limit has passed."""
        with self._lock:
            entry = self._pending.pop(call_id, None)
        if entry is not None:
            self._delete(call_id, _CANCELED)

    def store_response(self, session: Session, call_id: str, reply: Reply) -> None:
        """Store the response to a call, and notify the process that forwarded it."""
        processes.put_response(session, call_id, reply.to_bytes())
        session.publish(_RESPONSE, call_id)

    def announce_leader(self) -> None:
        """Signal that this process is the leader now, or continues as the leader and may have missed calls."""
        self._database.submit_durable(lambda session: session.publish(_LEADER), conflict_keys=())

    def recover(self, *_: str) -> None:
        """Recover the pending calls after the leader has changed, or has missed signals, or this process has.

        Stored responses are collected. Calls that were sent to the current leader are sent to it again, because it may
        have missed them, for example while it was starting. It ignores those that it is processing already. Pending GET
        requests are also sent to a new leader, unless it is this process. All other calls fail with 503, because the
        former leader may have processed them and they must not be processed twice.
        """
        with self._lock:
            pending = dict(self._pending)
        for call_id, each in pending.items():
            if not self._take_response(call_id):
                self._resend(call_id, each)

    def _resend(self, call_id: str, pending: _Pending) -> None:
        def work(session: Session) -> bool:
            is_same = pending.leader in {None, session.setting(LEADER)}
            may_repeat = self.is_needed and (is_same or pending.call.method == "GET")
            if may_repeat:
                _send(session, call_id, pending)
            # The response may have been stored since it was read.
            return may_repeat or processes.response(session, call_id) is not None

        def end(repeated: Future[bool]) -> None:
            if repeated.exception() or not repeated.result():
                self._end(call_id, pending.future)

        self._database.submit(work, conflict_keys=()).add_done_callback(end)

    def _end(self, call_id: str, future: Future[Reply]) -> None:
        with self._lock:
            self._pending.pop(call_id, None)
        # The request may have ended in the meantime, or another thread may have set its result.
        with suppress(InvalidStateError):
            future.set_exception(leader_changed())
        self._delete(call_id)

    def _handle_calls(self, *sent: str) -> None:
        token = self._token()
        for call_id, _, leader in (each.partition(" ") for each in sent):
            if self.responder is not None and token and leader == token:
                self.responder.handle(call_id)

    def _cancel_calls(self, *call_ids: str) -> None:
        if self.responder is not None and not self.is_needed:
            for call_id in call_ids:
                self.responder.cancel(call_id)

    def _collect(self, *call_ids: str) -> None:
        for call_id in call_ids:
            self._take_response(call_id)

    def _take_response(self, call_id: str) -> bool:
        with self._lock:
            entry = self._pending.get(call_id)
        if entry is None:
            return False
        response = self._database.query(lambda session: processes.response(session, call_id))
        if response is None:
            return False
        with self._lock:
            self._pending.pop(call_id, None)
        # The client may have disconnected, which cancels the future.
        with suppress(InvalidStateError):
            entry.future.set_result(Reply.from_bytes(response))
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
                entry = self._pending.pop(call_id, None)
            if entry is not None:
                with suppress(InvalidStateError):
                    entry.future.set_exception(error)


def _send(session: Session, call_id: str, pending: _Pending) -> None:
    """Send a stored call to the leader. No other process becomes the leader before the end of the transaction."""
    pending.leader = session.setting(LEADER)
    session.publish(_CALL, f"{call_id} {pending.leader}")


def leader_changed() -> ApiError:
    """Return the error for a call that was forwarded to a former leader."""
    return ApiError(
        503,
        "the leader changed during the request, which may have been processed; check whether it took effect before you"
        " repeat it",
        retry_after_seconds=_TRY_AGAIN_SECONDS,
    )
