"""The common base of both senders: settings, timeouts and errors of requests. This module performs no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from mirror_sdk._arguments import seconds
from mirror_sdk._protocol.client_clock import ClientClock
from mirror_sdk._protocol.client_status import Contact
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.flow import Sleep
from mirror_sdk._protocol.http_messages import lost
from mirror_sdk._protocol.operation_base import Operation, hide_key, hint_at_demo
from mirror_sdk._protocol.response_body import ACCEPT_ENCODING
from mirror_sdk._protocol.retries import Retries
from mirror_sdk.config import LONGEST_TIMEOUT_SECONDS, ClientSettings, read_max_retries, read_timeout
from mirror_sdk.errors import CallTimeout, ClientClosed, ConnectionFailed, InvalidValue, MirrorError


class SenderBase(ABC):
    """The address, the access key and the limits of a sender.

    Attributes:
        base_url: The address of the service.
        timeout_seconds: The timeout in seconds of a call that has no timeout of its own.
        contact: The record of the last contact with the service.
        clock: The source of times and ids.
    """

    def __init__(
        self, settings: ClientSettings, timeout_seconds: float, max_retries: int, clock: Callable[[], float]
    ) -> None:
        self.base_url: str = settings.base_url
        self.timeout_seconds: float = read_timeout(timeout_seconds)
        self.contact: Contact = Contact()
        self.clock: ClientClock = ClientClock()
        self._key = settings.api_key
        self._headers = {"Authorization": f"Bearer {self.api_key}", "Accept-Encoding": ACCEPT_ENCODING}
        self._max_retries = read_max_retries(max_retries)
        self._clock = clock

    @property
    def api_key(self) -> str:
        """The access key."""
        return self._key.get_secret_value()

    @property
    def base_path(self) -> str:
        """The path in the address of the service, without a slash at the end."""
        return httpx.URL(self.base_url).path.rstrip("/")

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the client was closed."""

    def require_open(self) -> None:
        """Raise an error if the client was closed.

        Raises:
            ClientClosed: The client was closed.
        """
        if self.is_closed:
            raise ClientClosed(
                "this client is closed; make a new one, or call this before close() and inside the with block"
            )

    def deadline(self, timeout: float | None) -> Deadline:
        """Return the deadline of a call that starts now. ``None`` uses the timeout of the client.

        Raises:
            InvalidValue: ``timeout`` is not a valid number of seconds.
        """
        if isinstance(timeout, Deadline):
            # The call is a part of another call, which started earlier and has one deadline for all of its parts.
            return timeout
        limit_seconds = self.timeout_seconds if timeout is None else seconds("timeout", timeout)
        if not 0 < limit_seconds <= LONGEST_TIMEOUT_SECONDS:
            raise InvalidValue(
                f"timeout={timeout!r} must be a number of seconds above 0, up to {LONGEST_TIMEOUT_SECONDS}"
            )
        return Deadline(limit_seconds, self._clock)

    def total_deadline(self, timeout: float | None) -> Deadline | None:
        """Return the deadline of a call with several requests. ``None`` applies the client's timeout to each of them.

        Raises:
            InvalidValue: ``timeout`` is not a valid number of seconds.
        """
        return None if timeout is None else self.deadline(timeout)

    def submit_limit(self, wait: Deadline | None) -> Deadline | None:
        """Return the timeout for submitting a device request whose response the caller then awaits.

        ``None`` uses the timeout of the client.
        """
        # If the wait is shorter than the client's timeout, a slow submission must not extend it.
        return wait if wait and wait < self.timeout_seconds else None

    def require_time(self, pause: Sleep, deadline: Deadline) -> None:
        """Raise an error if a pause takes longer than the rest of the call's time.

        Raises:
            CallTimeout: The pause would last until the deadline or longer.
        """
        if pause.seconds >= deadline.left:
            raise CallTimeout(deadline.overrun)

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Remove the access key from the errors of a call, and add hints to them."""
        try:
            yield
        except MirrorError as error:
            hint_at_demo(error, self.base_url)
            hide_key(error, self.api_key)
            raise

    def retries(self, operation: Operation[Any], deadline: Deadline) -> Retries:
        """Return the object that decides on further attempts of an operation."""
        return Retries(
            operation.max_attempts(self._max_retries),
            self.timeout_seconds,
            deadline,
            outlasts_loss=operation.outlasts_loss,
        )

    def lost(self, operation: Operation[Any], exc: httpx.RequestError, deadline: Deadline) -> ConnectionFailed:
        """Return the error for an operation that had no response.

        Raises:
            ClientClosed: The client was closed during the request, so the message of the operating system would be
                misleading.
        """
        self.require_open()
        failure = lost(operation, self.base_url, exc, deadline)
        hide_key(failure, self.api_key)
        self.contact.failed(failure)
        return failure
