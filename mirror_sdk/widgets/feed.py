"""The events of a client for all of its widgets.

The widgets share one poller, and each widget has a bounded buffer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary, ref

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.log_consumers import Watch
from mirror_sdk.events import Event, EventKind, utc_now

EVENTS_BUFFERED = 20_000
RETRY_SECONDS = 5.0


class Subscription:
    """The buffered events of a feed for one widget, from the start of its subscription.

    Args:
        close: A function that ends the subscription.
        buffered: The maximum number of buffered events. If there are more, the oldest events are dropped and counted.
    """

    def __init__(self, close: Callable[[Subscription], None], buffered: int = EVENTS_BUFFERED) -> None:
        self._close = close
        self._waiting: deque[Event] = deque(maxlen=buffered)
        self._overrun = 0
        self._lock = threading.Lock()

    def put(self, event: Event) -> None:
        """Add an event."""
        with self._lock:
            self._overrun += len(self._waiting) == self._waiting.maxlen
            self._waiting.append(event)

    def drain(self) -> tuple[list[Event], int]:
        """Remove the buffered events. Return them and the number of events that were dropped before them."""
        with self._lock:
            events, overrun = list(self._waiting), self._overrun
            self._waiting.clear()
            self._overrun = 0
        return events, overrun

    def close(self) -> None:
        """Stop receiving events. Closing the last subscription of a feed ends the poller of the feed."""
        self._close(self)


class EventFeed:
    """A feed of the events of a client.

    It uses one :class:`Watch` for all subscriptions, and restarts the watch after a failure.

    Args:
        client: The client of the mirror.
        clock: A function that returns the time in seconds. It measures the pause before a restart.
    """

    def __init__(self, client: MirrorClient, clock: Callable[[], float] = time.monotonic) -> None:
        # The reference is weak, because the client is the key of its feed, and a feed must not keep its own key alive.
        self._client = ref(client)
        self._clock = clock
        self._lock = threading.Lock()
        self._subscriptions: list[Subscription] = []
        self._watch: Watch | None = None
        self._reader: MirrorClient | None = None
        self._is_starting = False
        self._failure: Exception | None = None
        self._retry_at = clock()
        self._started = threading.Event()

    def subscribe(self) -> Subscription:
        """Add a subscription. The first subscription starts the poller."""
        subscription = Subscription(self._unsubscribe)
        with self._lock:
            # The list is replaced and never changed, because _publish() iterates over it without the lock.
            self._subscriptions = [*self._subscriptions, subscription]
        self.ensure_running()
        return subscription

    def await_start(self, timeout_seconds: float) -> bool:
        """Wait until the poller runs or has failed.

        A caller that reads the log afterwards misses no event between the log and the new events.
        """
        return self._started.wait(timeout_seconds)

    @property
    def problem(self) -> Exception | None:
        """The reason why no events are received, or ``None`` if events are received."""
        if self._failure is not None:
            return self._failure
        return self._watch.last_failure if self._watch is not None else None

    def ensure_running(self) -> None:
        """Start the poller if it is not running. Call this regularly. It returns immediately."""
        with self._lock:
            client = self._client()
            if client is not None and client._session.sender.is_closed:
                # The watch has a separate client, and would continue.
                self._stop()
            if self._is_starting or not self._subscriptions or self._is_running() or self._clock() < self._retry_at:
                return
            self._is_starting = True
        # Starting a watch sends a request, which takes a long time if the service does not respond.
        threading.Thread(target=self._start, name="mirror-feed-start", daemon=True).start()

    def _is_running(self) -> bool:
        if self._watch is None or self._watch.is_running:
            return self._watch is not None
        self._failure = next(reversed(self._watch.errors), None)
        self._watch = None
        if self._failure is not None:
            self._retry_at = self._clock() + RETRY_SECONDS
        return False

    def _start(self) -> None:
        client = self._client()
        if client is None:
            return
        try:
            reader = _reader_of(client)
            watch = reader.watch(self._publish)
        except Exception as error:  # including ClientClosed, which the widget shows like any other
            with self._lock:
                self._failure = error
                self._retry_at = self._clock() + RETRY_SECONDS
                self._is_starting = False
            self._started.set()
            return
        with self._lock:
            was_broken, self._failure = self._failure is not None, None
            self._is_starting = False
            self._watch, self._reader = watch, reader
            self._started.set()
            # The last subscription may have been closed while the watch was starting.
            if not self._subscriptions:
                self._stop()
        if was_broken:
            # A new watch starts at the end of the log, so the events in between are lost.
            self._publish(Event(kind=EventKind.GAP, received_at=utc_now()))

    def _publish(self, event: Event) -> None:
        for subscription in self._subscriptions:
            subscription.put(event)

    def _unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            self._subscriptions = [one for one in self._subscriptions if one is not subscription]
            if not self._subscriptions:
                self._stop()

    def _stop(self) -> None:
        if self._watch is not None:
            self._started.clear()
            # Do not wait, because this thread holds the lock.
            self._watch.stop(timeout=0)
            if self._reader is not None and self._reader is not self._client():
                # This ends the open poll, and with it the thread.
                self._reader.close()
            self._watch = self._reader = None


def _reader_of(client: MirrorClient) -> MirrorClient:
    """Return a separate client for the watch, which can be closed during its poll.

    If that is not possible, return ``client`` itself.
    """
    sender = client._session.sender
    if sender.is_closed or not sender.is_on_network or client._session.channel != "long polling":
        return client
    return MirrorClient(client.base_url, sender.api_key, timeout=sender.timeout_seconds)


_feeds: WeakKeyDictionary[MirrorClient, EventFeed] = WeakKeyDictionary()
_feeds_lock = threading.Lock()


def feed_of(client: MirrorClient) -> EventFeed:
    """Return the feed of a client."""
    with _feeds_lock:
        feed = _feeds.get(client)
        if feed is None:
            feed = _feeds[client] = EventFeed(client)
        return feed
