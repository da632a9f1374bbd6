"""The common base of the synchronous and the asynchronous handle of a device request.

Source: specification E2 and 6; wire.md 2 and 5.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NoReturn

from mirror_sdk._protocol.gap_warnings import warn_of_gap
from mirror_sdk._protocol.response_matcher import AwaitedResponse
from mirror_sdk._warnings import SourceLine
from mirror_sdk.errors import DeviceRequestFailed, WaitTimeout, device_request_failed, device_text
from mirror_sdk.values import NO_VALUE, Value, decode
from mirror_sdk.wire.device_requests import Method
from mirror_sdk.wire.log_entries import Gap
from mirror_sdk.wire.model import JsonForm, plain, write_timestamp
from mirror_sdk.wire.notifications import AsyncResponse

LONGEST_DEFAULT_WAIT_SECONDS = 60.0
RESPONSE_MARGIN_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class AcceptedRequest(JsonForm):
    """A device request that the service has accepted, and its response.

    In the examples, ``request`` is a read whose response has arrived.

    Attributes:
        async_id: The id of the request, which its response also contains.
        device_id: The id of the device.
        path: The resource path.
        method: The kind of the request: ``GET`` is a read, ``PUT`` a write and ``POST`` an execution.
        issued_at: The time at which this client sent the request, by the clock of this machine.
        expiry_seconds: How many seconds the request may wait for the device, or ``None`` for the default of the
            service.
        accepted_at: The time at which the service accepted a request with this async-id for the first time, by the
            service's clock. It is ``None`` for a resumed request, or if the service does not send it.
        expires_at: The time at which the request expires, by the service's clock. It is ``None`` in the same cases as
            ``accepted_at``.
        requested_value: The value to write, or ``None`` if the request has no value.
    """

    async_id: str
    device_id: str
    path: str
    method: Method
    issued_at: datetime
    expiry_seconds: int | None
    accepted_at: datetime | None = None
    expires_at: datetime | None = None
    requested_value: Value | None = None
    _awaited_response: AwaitedResponse
    _started_seconds: float | None = None
    _device_name: str | None = None

    def __reduce__(self) -> NoReturn:
        """Raise an error, because this object cannot be pickled."""
        raise TypeError(
            "a request cannot be pickled, because its client belongs to this process; in another process, call"
            f" client.requests.resume({self.async_id!r}, {self.device_id!r}, {self.path!r}, method={self.method!r})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes and the ``response``, if it has arrived, for any JSON encoder. This sends no request.

        >>> request.to_dict()["path"], request.to_dict()["response"]["status"]
        ('/3303/0/5700', 200)
        """
        return {**JsonForm.to_dict(self), "response": plain(self.response)}

    @property
    def response(self) -> AsyncResponse | None:
        """The response, or ``None`` until it has arrived. Reading this attribute sends no request.

        >>> request.response.status
        200
        """
        return self._awaited_response.response

    @property
    def received_at(self) -> datetime | None:
        """The time at which this client received the response, by the clock of this machine, or ``None`` until then.

        >>> request.received_at > request.issued_at
        True
        """
        return self._awaited_response.received_at

    @property
    def latency(self) -> timedelta | None:
        """The time from sending the request until this client received the response.

        A monotonic clock measures this time, so a wrong or simulated clock does not affect it. The latency is longer if
        the client reads the log late. It is ``None`` until the response has arrived, and for a resumed request.

        >>> request.latency < timedelta(seconds=10)
        True
        """
        received_seconds = self._awaited_response.received_seconds
        if received_seconds is None or self._started_seconds is None:
            return None
        # A response that arrived before the request was sent belongs to an earlier request with the same async-id.
        return timedelta(seconds=max(0.0, received_seconds - self._started_seconds))

    @property
    def default_timeout_seconds(self) -> float:
        """The default timeout of a wait in seconds: slightly longer than ``expiry_seconds``, but at most a minute."""
        if self.expiry_seconds is None:
            return LONGEST_DEFAULT_WAIT_SECONDS
        return min(self.expiry_seconds + RESPONSE_MARGIN_SECONDS, LONGEST_DEFAULT_WAIT_SECONDS)

    def read_failure(self, response: AsyncResponse) -> DeviceRequestFailed | None:
        """Return the error that a response reports, or ``None`` if the request succeeded."""
        if 200 <= response.status < 300:
            return None
        return device_request_failed(
            category=response.error or "UNKNOWN",
            status=response.status,
            device_id=self.device_id,
            path=self.path,
            async_id=self.async_id,
            method=self.method,
            device_name=self._device_name,
        )

    def read_value(self, response: AsyncResponse) -> Value:
        """Return the value in a response. The response to a write or an execution often contains no value."""
        if self.method != "GET" and not response.payload:
            return NO_VALUE
        return decode(response.payload, response.ct, self.path)

    def wait_timeout(self, timeout_seconds: float) -> WaitTimeout:
        """Return the error for a wait that took too long."""
        until = f" until {write_timestamp(self.expires_at)}" if self.expires_at else ""
        device = device_text(self.device_id, self._device_name)
        return WaitTimeout(
            f"no response for {self.path} of device {device} within {timeout_seconds:g} s. The request may still"
            f" finish: it waits{until} for the device, or for an earlier request to finish. expiry_seconds= limits this"
            " wait. Call result() again, pass a longer timeout, or resume the request in any process with"
            f" client.requests.resume({self.async_id!r}, {self.device_id!r}, {self.path!r}, method={self.method!r})"
        )


@dataclass(frozen=True, kw_only=True)
class UnacceptedRequest(JsonForm):
    """A device request that the service has not accepted.

    Attributes:
        async_id: The id of the request.
        device_id: The id of the device.
        path: The resource path.
        method: The kind of the request: ``GET`` is a read, ``PUT`` a write and ``POST`` an execution.
        requested_value: The value to write, or ``None`` if the request has no value.
        issued_at: The time at which this client tried to submit the request, by the clock of this machine. It is
            ``None`` if the client did not try.
        rejection_reason: The reason in one word why the service rejected the request.
        rejection_message: The reason in a sentence why the service rejected the request.
        is_unknown: Whether the service did not respond, so it is unknown whether it accepted the request.
        found: The current desired value, if the service rejected the write because another write came first.
    """

    async_id: str
    device_id: str
    path: str
    method: Method
    requested_value: Value | None = None
    issued_at: datetime | None = None
    rejection_reason: str | None = None
    rejection_message: str | None = None
    is_unknown: bool = False
    found: Value | None = None


def warn_of_loss(requests: Iterable[object], called_from: SourceLine | None = None) -> None:
    """Warn once if the log has lost entries that may include responses to these requests."""
    pending = [one._awaited_response for one in requests if isinstance(one, AcceptedRequest) and one.response is None]
    lost = dict.fromkeys(awaited_response.lost for awaited_response in pending if awaited_response.lost is not None)
    for awaited_response in pending:
        awaited_response.lost = None
    for first_seq, last_seq in lost:
        warn_of_gap(Gap(first_seq, last_seq), called_from=called_from)


def require_requests(requests: object) -> list[AcceptedRequest | UnacceptedRequest]:
    """Return a list of requests, which the service may have accepted or not, after checking the types.

    Raises:
        TypeError: ``requests`` is a single request, or contains other objects.
    """
    rows = list(requests) if isinstance(requests, Iterable) else [requests]
    found = [row for row in rows if isinstance(row, AcceptedRequest | UnacceptedRequest)]
    if len(found) < len(rows) or not isinstance(requests, Iterable):
        raise TypeError(
            f"requests={reprlib.repr(requests)}: pass a list of requests that client.requests.begin_read(),"
            " begin_write() or begin_execute() returned; for an async-id, such as one of client.requests.list(), call"
            " client.requests.resume() first"
        )
    return found
