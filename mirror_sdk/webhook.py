"""Webhooks: notifications that the service pushes, received by a small server or by your application.

``client.notifications.use_webhook(WebhookReceiver(...))`` switches from long polling to a webhook.
``client.notifications.use_long_polling()`` switches back. Events and responses arrive as they do with long polling.

A :class:`WebhookReceiver` listens on a port of its own. In a web application of your own, keep a :class:`CallbackInbox`
and pass each request to it. With Flask::

    inbox = CallbackInbox()

    @app.put("/callback")
    def callback():
        return "", inbox.receive(request.get_data(), request.headers)

With FastAPI::

    @app.put("/callback")
    async def callback(request: Request) -> Response:
        return Response(status_code=inbox.receive(await request.body(), request.headers))

Then call ``client.notifications.use_webhook(inbox, url="https://app.example.com/callback")``.

``python -m mirror_sdk.example_app`` is a complete small application (:mod:`mirror_sdk.example_app`).
``mirror-server help notifications`` describes how the service calls a webhook, and what a program receives when it
changes channels.

Source: specification E4, E5; wire.md 4 and 5.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from mirror_sdk._fork import close_in_child, tell_in_child
from mirror_sdk._protocol.async_log_reader import AsyncReader, AsyncSend
from mirror_sdk._protocol.log_reader import Reader, Send
from mirror_sdk._protocol.operations import get_callback, put_callback
from mirror_sdk._protocol.steps import Steps
from mirror_sdk.errors import BadRequest, ChannelGone, ConfigError, MirrorError, UnexpectedAnswer
from mirror_sdk.wire.channel import CallbackRegistration
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.log_entries import NOTHING, Batch, Entries, Entry, Gap

__all__ = ["CallbackInbox", "WebhookReceiver", "parse_callback"]

TOKEN_HEADER = "x-mirror-token"  # noqa: S105 - its name, not the token
ENTRIES_KEPT = 100_000
UIDS_KEPT = 100_000
LARGEST_BODY_BYTES = 64 * 1024 * 1024
SILENCE_SECONDS = 5.0
"""How long a client waits for its webhook before it looks into the service's log."""


class _LogPosition(Protocol):
    """A reader of the service's log."""

    @property
    def last_failure(self) -> MirrorError | None: ...
    @property
    def position(self) -> int | None: ...
    @property
    def pause_seconds(self) -> float: ...
    def beside(self, position: int | None, /) -> Self: ...


SendT = TypeVar("SendT")
ReaderT = TypeVar("ReaderT", bound=_LogPosition)


def parse_callback(body: bytes) -> tuple[Entry, ...]:
    """The entries of one call of a webhook, in the order of the log where their numbers are told.

    There are none for the test call at its registration.

    An entry that cannot be read is kept as it is, and takes no other with it.

    Raises:
        UnexpectedAnswer: The body is no notification message.

    Source: specification E5; wire.md 5.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise UnexpectedAnswer(f"the body of a callback is not JSON: {exc}") from exc
    if not isinstance(message, dict):
        raise UnexpectedAnswer("the body of a callback is no JSON object")
    return tuple(Entries(message))


def registered(url: str, headers: Mapping[str, str]) -> Steps[bool]:
    """Have a webhook be registered; where the service does not know of the numbers of entries, without them.

    Returns:
        Whether it knows of them, and so has a log that can be read.

    Raises:
        BadRequest: The service refuses it.
        ValueError: The URL or the headers cannot be registered.
    """
    try:
        yield put_callback(url, headers, with_seq=True)
    except BadRequest as refusal:
        if not any("include_seq" in text for text in (refusal.message, *(field.name for field in refusal.fields))):
            raise
        yield put_callback(url, headers, with_seq=False)
        return False
    return True


class CallbackInbox:
    """Takes the calls of a webhook, and keeps their entries for any number of readers, each with its own position.

    They have the numbers of the service's log, and its order within a call; a service that tells none has them counted
    here, in the order in which they came. Entries that come again, because an answer was lost, are recognised by their
    ``uid`` or number. The newest 100,000 are kept; a reader that is slower is told of the loss, and each of what
    the log of the service had dropped.

    Attributes:
        url: Where the service reaches it, where that is known.
        headers: What the service has to send; they show that a call comes from it.
        duplicates: How many entries came again.
        refused: How many calls were not from the service, or not readable.
    """

    def __init__(self) -> None:
        self.url: str | None = None
        self.headers: dict[str, str] = {TOKEN_HEADER: secrets.token_urlsafe(24)}
        self.duplicates: int = 0
        self.refused: int = 0
        self._entries: deque[Entry] = deque(maxlen=ENTRIES_KEPT)
        self._last = 0
        self._registrations = 0
        self._begins: dict[int, int] = {}
        self._uids: OrderedDict[str, None] = OrderedDict()
        self._changed = threading.Condition()
        self._listeners: set[Callable[[], object]] = set()
        tell_in_child(self)

    def _begin_in_child(self) -> None:
        """What came is here too; who waits for more stays with the parent."""
        self._changed = threading.Condition()
        self._listeners = set()

    def receive(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Take one call; gives the HTTP status to answer with: 204, or 403 or 400 for what is not to be taken.

        Args:
            body: The body of the request.
            headers: Its headers; names in any case.
        """
        given = next((value for name, value in headers.items() if name.lower() == TOKEN_HEADER), "")
        if not hmac.compare_digest(given.encode(), self.headers[TOKEN_HEADER].encode()):
            self.refused += 1
            return 403
        try:
            entries = parse_callback(body)
        except UnexpectedAnswer:
            self.refused += 1
            return 400
        self._add(entries)
        return 204

    def reader(self) -> CallbackReader:
        """A reader of what comes from now on."""
        return CallbackReader(self)

    @property
    def last(self) -> int:
        """The number of the newest entry, 0 before the first one."""
        with self._changed:
            return self._last

    @property
    def registrations(self) -> int:
        """How often a webhook with this inbox was registered, at least 1."""
        with self._changed:
            return max(self._registrations, 1)

    def first_of(self, registration: int) -> int | None:
        """The number of the first entry that came with a registration; ``None`` where none came."""
        with self._changed:
            return self._begins.get(registration)

    def read(self, after: int) -> Batch:
        """What follows the position, at once."""
        with self._changed:
            return self._read(after)

    def wait(self, after: int, timeout_seconds: float) -> Batch:
        """What follows the position, waited for."""
        with self._changed:
            self._changed.wait_for(lambda: self._last > after, timeout_seconds)
            return self._read(after)

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have ``listener`` called when there is something new; what this gives ends that."""
        with self._changed:
            self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def _add(self, entries: tuple[Entry, ...]) -> None:
        with self._changed:
            # Only the test call of a registration has none.
            self._registrations += not entries
            for entry in filter(self._is_new, entries):
                self._keep(entry)
            self._changed.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def _keep(self, entry: Entry) -> None:
        # A log that began anew counts from 1 again: here the numbers go on.
        seq = self._last + 1 if entry.seq is None else max(self._last + 1, entry.seq)
        self._begins.setdefault(max(self._registrations, 1), seq)
        self._last = seq
        self._entries.append(entry._replace(seq=seq))

    def _is_new(self, entry: Entry) -> bool:
        # What cannot be read, or was logged by an earlier version of the service, may have no other identity.
        uid = getattr(entry.body, "uid", None) or (None if entry.seq is None else f"number {entry.seq}")
        if uid is None:
            return True
        if uid in self._uids:
            self.duplicates += 1
            return False
        self._uids[uid] = None
        if len(self._uids) > UIDS_KEPT:
            self._uids.popitem(last=False)
        return True

    def _read(self, after: int) -> Batch:
        if self._last <= after:
            return NOTHING
        following = list(takewhile(lambda entry: (entry.seq or 0) > after, reversed(self._entries)))
        following.reverse()
        first = following[0].seq or 0
        # What is missing in between ends the batch, so that the next one tells of it.
        adjoining = [entry for number, entry in enumerate(following, first) if entry.seq == number]
        gap = Gap(after + 1, first - 1) if first > after + 1 else None
        return Batch(tuple(adjoining), adjoining[-1].seq, gap)


@dataclass(slots=True)
class RegisteredWebhook(Generic[SendT, ReaderT]):
    """The webhook that a client registered, which all its readers share.

    Attributes:
        url: The address it was registered with.
        token: What it was registered with, to tell it from one that another program registers.
        send: Sends a request of the client.
        log: A reader of the service's log at its end at the registration; ``None`` where the service has no such log.
        is_replaced: Whether another program with the key has removed it, or registered another one.
    """

    url: str
    token: str
    send: SendT
    log: ReaderT | None
    is_replaced: bool = False

    def note(self, found: CallbackRegistration | None) -> None:
        """Take what is registered now.

        Raises:
            ChannelGone: It is not this one, and there is no log to read instead.
        """
        tokens = [value for name, value in ((found and found.headers) or {}).items() if name.lower() == TOKEN_HEADER]
        self.is_replaced = found is None or found.url != self.url or tokens not in ([], [self.token])
        if self.is_replaced and self.log is None:
            message = (
                f"the webhook {self.url} of this key was removed or replaced by another program, and the service has no"
                " log to read instead; give each program a key of its own, or call"
                " client.notifications.use_webhook() again"
            )
            raise ChannelGone(410, ErrorBody(code=410, type="gone", message=message))


class _Position(Generic[SendT, ReaderT]):
    """How far a reader of a :class:`CallbackInbox` is.

    It goes on with the service's log, where there is one, for what the webhook did not bring: because entries are
    missing before those that came, or nothing comes at all. So nothing is lost while the webhook of another program
    is registered.
    """

    is_placed = True

    def __init__(self, inbox: CallbackInbox, channel: RegisteredWebhook[SendT, ReaderT] | None = None) -> None:
        self._inbox = inbox
        self._channel = channel
        self._after = inbox.last
        self._registration = inbox.registrations
        self._log = None if channel is None else channel.log

    @property
    def position(self) -> int:
        """Number of the last entry that was read."""
        return self._after

    @property
    def is_replaced(self) -> bool:
        """Whether another program has taken over the webhook, so that only the log is read."""
        return self._channel is not None and self._channel.is_replaced

    @property
    def last_failure(self) -> MirrorError | None:
        """Why the log could not be read last; ``None`` where it could."""
        return None if self._log is None else self._log.last_failure

    @property
    def pause_seconds(self) -> float:
        """How long the next look into the log is put off, because the last one failed."""
        return 0.0 if self._log is None else self._log.pause_seconds

    def pass_over(self, _seq: int | None) -> bool:
        """Whether it moved on behind an entry that was told elsewhere: never, as the webhook brings it in any case."""
        return False

    def beside(self, position: int | None) -> Self:
        """Another reader of the same inbox, from this position."""
        reader = type(self)(self._inbox, self._channel)
        reader._after = reader._after if position is None else position
        return reader

    def _go_to_end(self) -> None:
        self._after = max(self._after, self._inbox.last)

    def _begin(self) -> int:
        """The number behind which all entries are to come; before that the webhook was not registered."""
        first = self._inbox.first_of(self._registration)
        if first is not None:
            return first - 1
        end = None if self._channel is None or self._channel.log is None else self._channel.log.position
        return end or 0

    def _without_gap_before_begin(self, batch: Batch) -> Batch:
        gap = batch.gap
        if gap is None or gap.first_seq is None or gap.last_seq is None:
            return batch
        first = max(gap.first_seq, self._begin() + 1)
        return replace(batch, gap=Gap(first, gap.last_seq) if first <= gap.last_seq else None)

    def _placed_log(self) -> ReaderT | None:
        """The reader of the log, behind what was read."""
        after = max(self._after, self._begin())
        if self._log is not None and self._log.position != after:
            self._log = self._log.beside(after)
        return self._log

    def _took(self, batch: Batch) -> Batch:
        self._after = batch.seq if batch.seq is not None else self._after
        return batch

    def _took_from_log(self, batch: Batch) -> Batch:
        if batch.gap == Gap(None, None):
            # The log has other numbers than those that came, and cannot be asked for what lies between.
            self._log = None
        return self._took(batch)


class CallbackReader(_Position[Send, Reader]):
    """Reads a :class:`CallbackInbox` from a position of its own, as a ``LogReader`` reads the log of the service."""

    def go_to_end(self, _within_seconds: float = math.inf) -> None:
        """Take the present end as the position."""
        self._go_to_end()

    def read(self, hold_seconds: float, within_seconds: float = math.inf) -> Batch:
        """Wait for what follows the position, at most so long.

        Raises:
            ChannelGone: Another program has taken over the webhook, and the service has no log.
            MirrorError: The log could not be read, and requesting it again would not help.
        """
        if self._channel is None:
            return self._took(self._without_gap_before_begin(self._inbox.wait(self._after, hold_seconds)))
        if self._channel.is_replaced and (log := self._placed_log()) is not None:
            return self._took_from_log(log.read(hold_seconds, within_seconds))
        came = self._inbox.wait(self._after, min(hold_seconds, SILENCE_SECONDS))
        came = self._without_gap_before_begin(came)
        if came.seq is not None and (came.gap is None or self._log is None):
            return self._took(came)
        log = self._placed_log()
        batch = NOTHING if log is None else log.read(0, within_seconds)
        if came.seq is None and (batch.entries or log is None):
            self._look_at(self._channel)
        return self._took_from_log(batch)

    def _look_at(self, channel: RegisteredWebhook[Send, Reader]) -> None:
        try:
            found = channel.send(get_callback())
        except MirrorError:
            return  # it is looked at again after the next silence
        channel.note(found)


class AsyncCallbackReader(_Position[AsyncSend, AsyncReader]):
    """Does on an event loop what :class:`CallbackReader` does in threads."""

    async def go_to_end(self, _within_seconds: float = math.inf) -> None:
        """Take the present end as the position."""
        self._go_to_end()

    async def read(self, hold_seconds: float, within_seconds: float = math.inf) -> Batch:
        """Wait for what follows the position, at most so long. A read that is cancelled leaves the position.

        Raises:
            ChannelGone: Another program has taken over the webhook, and the service has no log.
            MirrorError: The log could not be read, and requesting it again would not help.
        """
        if self._channel is None:
            return self._took(self._without_gap_before_begin(await self._wait(hold_seconds)))
        if self._channel.is_replaced and (log := self._placed_log()) is not None:
            return self._took_from_log(await log.read(hold_seconds, within_seconds))
        came = self._without_gap_before_begin(await self._wait(min(hold_seconds, SILENCE_SECONDS)))
        if came.seq is not None and (came.gap is None or self._log is None):
            return self._took(came)
        log = self._placed_log()
        batch = NOTHING if log is None else await log.read(0, within_seconds)
        if came.seq is None and (batch.entries or log is None):
            await self._look_at(self._channel)
        return self._took_from_log(batch)

    async def _look_at(self, channel: RegisteredWebhook[AsyncSend, AsyncReader]) -> None:
        try:
            found = await channel.send(get_callback())
        except MirrorError:
            return  # it is looked at again after the next silence
        channel.note(found)

    async def _wait(self, hold_seconds: float) -> Batch:
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        # Told before looking, so that what comes in between is not waited for.
        stop = self._inbox.listen(lambda: None if loop.is_closed() else loop.call_soon_threadsafe(arrived.set))
        try:
            batch = self._inbox.read(self._after)
            if batch.seq is None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(arrived.wait(), hold_seconds)
                batch = self._inbox.read(self._after)
        finally:
            stop()
        return batch


class WebhookReceiver(CallbackInbox):
    """A small server for callbacks, in a thread of its own, until it is closed; it can be used in ``with``.

    It stays with the process that made it: in a child process nothing can be read of it, and closing it does nothing.

    Args:
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        public_url: Address under which the service reaches it, where that is another one.

    Raises:
        ConfigError: The address cannot be listened on.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, public_url: str | None = None) -> None:
        super().__init__()
        try:
            self._server = ThreadingHTTPServer((host, port), self._handler())
        except OSError as exc:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {exc}; choose another port, or 0 for a free one"
            ) from exc
        self._server.daemon_threads = True
        self._is_of_parent = False
        self.url: str = public_url or f"http://{host}:{self._server.server_address[1]}/callback"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="mirror-webhook", daemon=True
        )
        self._thread.start()

    def _begin_in_child(self) -> None:
        """The parent alone listens: a connection that is made to a child would wait there for ever."""
        super()._begin_in_child()
        self._is_of_parent = True
        if self._server.fileno() >= 0:
            close_in_child(self._server.fileno())

    def read(self, after: int) -> Batch:
        """What follows the position, at once.

        Raises:
            ConfigError: This is a child of the process that listens.
        """
        self._require_here()
        return super().read(after)

    def wait(self, after: int, timeout_seconds: float) -> Batch:
        """What follows the position, waited for.

        Raises:
            ConfigError: This is a child of the process that listens.
        """
        self._require_here()
        return super().wait(after, timeout_seconds)

    def _require_here(self) -> None:
        if self._is_of_parent:
            raise ConfigError(
                f"the webhook {self.url} listens in the parent of this process, which gets all that is sent to it; wait"
                " there, or make a client here with another access key"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<WebhookReceiver {self.url}, {len(self._entries)} entries>"

    def close(self) -> None:
        """Stop listening; what was received stays."""
        if self._is_of_parent:
            return
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 30

            def do_PUT(self) -> None:
                length = self.headers.get("Content-Length", "")
                if not length.isdecimal() or int(length) > LARGEST_BODY_BYTES:
                    self._answer(411 if not length.isdecimal() else 413)
                    return
                self._answer(inbox.receive(self.rfile.read(int(length)), dict(self.headers)))

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Write nothing: a library is silent."""

        return Handler
