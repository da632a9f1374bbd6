"""The common part of both senders: settings, time limits of calls, and errors of requests. It does no I/O."""

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
    """The address and the access key of a sender, and the limits of its calls.

    Attributes:
        base_url: Address of the service.
        timeout_seconds: How long a call without its own limit may take.
        contact: When the service last responded.
        clock: Clock and id source.
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
        """The path of the address."""
        return httpx.URL(self.base_url).path.rstrip("/")

    @property
    @abstractmethod
    def is_closed(self) -> bool:
        """Whether it was closed."""

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
        """Return the deadline of a call that starts now. ``None`` applies the client's limit.

        Raises:
            InvalidValue: ``timeout`` is not a valid number of seconds.
        """
        if isinstance(timeout, Deadline):
            # The call is a part of another one, which started before and must end as a whole.
            return timeout
        limit_seconds = self.timeout_seconds if timeout is None else seconds("timeout", timeout)
        if not 0 < limit_seconds <= LONGEST_TIMEOUT_SECONDS:
            raise InvalidValue(
                f"timeout={timeout!r} must be a number of seconds above 0, up to {LONGEST_TIMEOUT_SECONDS}"
            )
        return Deadline(limit_seconds, self._clock)

    def total_deadline(self, timeout: float | None) -> Deadline | None:
        """Return the deadline of a call that sends several requests. ``None`` applies the client's limit to each.

        Raises:
            InvalidValue: ``timeout`` is not a valid number of seconds.
        """
        return None if timeout is None else self.deadline(timeout)

    def submit_limit(self, wait: Deadline | None) -> Deadline | None:
        """Return the limit for sending a device request whose response the caller then awaits.

        ``None`` applies the client's limit.
        """
        # A wait that is shorter than the client's limit must not take longer only because sending is slow.
        return wait if wait and wait < self.timeout_seconds else None

    def require_time(self, pause: Sleep, deadline: Deadline) -> None:
        """Raise an error if a call has no time for a pause.

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
        """Return the attempts of an operation."""
        return Retries(
            operation.max_attempts(self._max_retries),
            self.timeout_seconds,
            deadline,
            outlasts_loss=operation.outlasts_loss,
        )

    def lost(self, operation: Operation[Any], exc: httpx.RequestError, deadline: Deadline) -> ConnectionFailed:
        """Return the error for an operation without a response.

        Raises:
            ClientClosed: The client was closed during the request; the system's own message would mislead.
        """
        self.require_open()
        failure = lost(operation, self.base_url, exc, deadline)
        hide_key(failure, self.api_key)
        self.contact.failed(failure)
        return failure
