"""A buffer of the entries that a webhook received, for any number of readers."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import takewhile

from mirror_sdk._fork import register_fork_handler
from mirror_sdk.errors import UnexpectedResponse
from mirror_sdk.wire.log_entries import NOTHING, Batch, Entries, Entry, Gap

TOKEN_HEADER = "x-mirror-token"  # noqa: S105 - the name of the header, not a token
MAX_ENTRIES = 100_000
MAX_UIDS = 100_000


def parse_callback(body: bytes) -> tuple[Entry, ...]:
    """Return the entries in the body of a webhook call.

    The entries are in the order of the log if the service sends their numbers. An entry that cannot be read is returned
    unchanged. During the registration, the service makes a test call, which has no entries.

    Raises:
        UnexpectedResponse: ``body`` is not a valid notification message.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise UnexpectedResponse(f"the body of a callback is not JSON: {exc}") from exc
    if not isinstance(message, dict):
        raise UnexpectedResponse("the body of a callback is not a JSON object")
    return tuple(Entries(message))


class CallbackInbox:
    """An inbox that accepts the calls of a webhook and stores their entries for any number of readers.

    Each reader has its own position. The entries have the numbers of the service's log. If the service sends no
    numbers, the inbox counts the entries in the order of arrival. An entry that is sent again is recognized by its
    ``uid`` or number.

    The inbox stores the newest 100,000 entries. A reader that lags further receives a gap. If the service's log has
    lost entries, all readers receive a gap.

    Attributes:
        url: The address at which the service calls the webhook, or ``None`` if it is unknown.
        headers: The headers that the service must send. They prove that a call comes from the service.
        last: The number of the newest entry, or 0 before the first entry.
        duplicates: The number of entries that were sent again.
        rejected: The number of calls that did not come from the service or could not be read.
    """

    def __init__(self) -> None:
        self.url: str | None = None
        self.headers: dict[str, str] = {TOKEN_HEADER: secrets.token_urlsafe(24)}
        self.last: int = 0
        self.duplicates: int = 0
        self.rejected: int = 0
        self._entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._registrations = 0
        self._first_of: dict[int, int] = {}
        self._uids: OrderedDict[str, None] = OrderedDict()
        self._changed = threading.Condition()
        self._listeners: set[Callable[[], object]] = set()
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Remove the waiting readers, which stay with the parent process. The entries remain."""
        self._changed = threading.Condition()
        self._listeners = set()

    def receive(self, body: bytes, headers: Mapping[str, str]) -> int:
        """Process one call of the webhook, and return the HTTP status for its response.

        Args:
            body: The body of the request.
            headers: The headers of the request. Their names may be in upper or lower case.

        Returns:
            204, or 403 if the token of the service is missing or wrong, or 400 if the body is not a notification
            message.
        """
        token = next((value for name, value in headers.items() if name.lower() == TOKEN_HEADER), "")
        if not hmac.compare_digest(token.encode(), self.headers[TOKEN_HEADER].encode()):
            self.rejected += 1
            return 403
        try:
            entries = parse_callback(body)
        except UnexpectedResponse:
            self.rejected += 1
            return 400
        self._add(entries)
        return 204

    @property
    def registration(self) -> int:
        """The number of times that a webhook was registered with this inbox, at least 1."""
        return max(self._registrations, 1)

    def first_of(self, registration: int) -> int | None:
        """Return the number of the first entry after a registration, or ``None`` if no entry has arrived."""
        return self._first_of.get(registration)

    def wait(self, after: int, timeout_seconds: float) -> Batch:
        """Return the entries after a position. If there are none, wait for the first one."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_more(after), timeout_seconds)
            return self._read(after)

    async def wait_async(self, after: int, timeout_seconds: float) -> Batch:
        """Return the entries after a position like :meth:`wait`, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()

        def listener() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(arrived.set)

        # Added before the first check, so that an entry that arrives in between also ends the wait.
        with self._changed:
            self._listeners.add(listener)
        try:
            if not self._has_more(after):
                with suppress(TimeoutError):
                    await asyncio.wait_for(arrived.wait(), timeout_seconds)
        finally:
            self._listeners.discard(listener)
        with self._changed:
            return self._read(after)

    def _has_more(self, after: int) -> bool:
        return self.last > after

    def _add(self, entries: tuple[Entry, ...]) -> None:
        with self._changed:
            # A call without entries is the test call during a registration.
            self._registrations += not entries
            for entry in filter(self._is_new, entries):
                self._append(entry)
            self._changed.notify_all()
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    def _append(self, entry: Entry) -> None:
        # After a reset, the log counts from 1 again, but the numbers of the inbox continue.
        seq = self.last + 1 if entry.seq is None else max(self.last + 1, entry.seq)
        self._first_of.setdefault(self.registration, seq)
        self.last = seq
        self._entries.append(entry._replace(seq=seq))

    def _is_new(self, entry: Entry) -> bool:
        # The number identifies entries without a uid, which cannot be read or come from an earlier version of the
        # service.
        uid = getattr(entry.body, "uid", None) or (None if entry.seq is None else f"number {entry.seq}")
        if uid is None:
            return True
        if uid in self._uids:
            self.duplicates += 1
            return False
        self._uids[uid] = None
        if len(self._uids) > MAX_UIDS:
            self._uids.popitem(last=False)
        return True

    def _read(self, after: int) -> Batch:
        if not self._has_more(after):
            return NOTHING
        # From the end, because a reader usually needs only the newest of up to 100,000 entries.
        following = list(takewhile(lambda entry: (entry.seq or 0) > after, reversed(self._entries)))
        following.reverse()
        first = following[0].seq or 0
        # A missing number ends the batch, so that the next batch can report the gap.
        adjoining = [entry for number, entry in enumerate(following, first) if entry.seq == number]
        gap = Gap(after + 1, first - 1) if first > after + 1 else None
        return Batch(tuple(adjoining), adjoining[-1].seq, gap)
