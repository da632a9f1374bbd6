"""Every error and warning of this package.

Exceptions::

    MirrorError
      x ConfigError
      x ClientClosed
      + UnknownResource
      x AmbiguousName
      x RecordingDamaged
      x CassetteDamaged
      x NotRecorded
      x InvalidValue
      + ConnectionFailed
        x CallTimeout
      x UnexpectedResponse
      x WaitTimeout
      + APIError
        + BadRequest
          x NoSuchResource
          x BeforeHistory
        x AuthenticationError
        x AccessDenied
        + NotFound
          x UnknownDevice
          x UnknownQuery
          x NoHistory
        x Conflict
        x ChannelGone
        x PreconditionFailed
        x LimitExceeded
        x ServerError
      + DeviceRequestFailed
        x RequestExpired
        x ResourceNotFound
        + WriteRejected
          x ReadRejected
          x ExecuteRejected
        x DeviceUnavailable

Classes with a ``+`` have subclasses. ``NoSuchResource`` and ``ResourceNotFound`` are an ``UnknownResource`` too: every
call that needs a resource which the device does not have raises it. Reading the state of a subscription, or ending it,
needs no resource. Some are also errors of Python: ``InvalidValue`` and ``AmbiguousName`` are a ``ValueError``,
``UnknownResource`` is a ``KeyError``, ``CallTimeout`` and ``WaitTimeout`` are a ``TimeoutError``. ``help(mirror_sdk)``
has web applications that report them to their users.

Warnings::

    UserWarning
      x GapWarning
      x CompatibilityWarning
      x SnapshotWarning
      x NotSubscribedWarning
      x EmptyTableWarning
      x UnitWarning

No message and no attribute contains an access key.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from mirror_sdk._visible import visible_line
from mirror_sdk.wire import history as wire_history
from mirror_sdk.wire.device_requests import Method
from mirror_sdk.wire.errors import ErrorBody, FieldError

if TYPE_CHECKING:
    from mirror_sdk.resource import Resource


class MirrorError(Exception):
    """The base class of all errors of this package."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ConfigError(MirrorError):
    """A setting is missing or invalid; the message names it and the places where it is looked for."""


class ClientClosed(MirrorError):
    """The client was closed, by ``close()`` or at the end of its ``with`` block; make a new one."""


class UnknownResource(MirrorError, KeyError):
    """The device does not have this resource; the message of a device object and of ``explain`` lists similar paths.

    It is also a :class:`NoSuchResource` if the service says so, and a :class:`ResourceNotFound` if the device does.
    """

    def __str__(self) -> str:
        # A KeyError would show its message in quotes.
        return str(self.args[0])


class AmbiguousName(MirrorError, ValueError):
    """Several devices have this endpoint name; the message lists their ids. Pass one of them."""


class RecordingDamaged(MirrorError):
    """A file of a recording was changed or damaged; the message names it."""


class CassetteDamaged(MirrorError):
    """A file is not a cassette, or was changed or damaged; the message names it."""


class NotRecorded(MirrorError):
    """The request was not sent during the recording, so the cassette has no response to it.

    The message names the cassette and the request.
    """


class InvalidValue(MirrorError, ValueError):
    """A value or another argument is invalid. Nothing was sent; the message names it and says what is valid."""


class ConnectionFailed(MirrorError):
    """The service could not be reached, or the connection was lost before the response was complete.

    Attributes:
        attempts: How often the request was sent.
        was_sent: Whether the last request may have arrived, so that the service may have acted.
    """

    attempts: int = 1
    was_sent: bool = False

    def __str__(self) -> str:
        return super().__str__() + _after(self.attempts)


class CallTimeout(ConnectionFailed, TimeoutError):
    """The call took longer than its ``timeout``, with all attempts and pages.

    Whether the service acted is unknown. A device request can be sent again with the same async-id.
    """


class UnexpectedResponse(MirrorError):
    """The response does not follow the interface; most often the address belongs to another program."""


class WaitTimeout(MirrorError, TimeoutError):
    """The wait ended, but the request did not: it may still finish, and you can wait again with its handle."""


class APIError(MirrorError):
    """The service rejected a request. Source: wire.md 0.

    Attributes:
        status: HTTP status.
        type: The kind of error in one word, for example ``not_found``.
        reason: The error word of the public API (``QUEUE_IS_FULL``) if it has one, else ``None``.
        message: What is wrong and what to do next, in the service's words.
        fields: The invalid fields, with what is wrong with each.
        request_id: The id of this request in the service's log.
        retry_after_seconds: How long to wait before the next attempt, if the service says so.
        attempts: How often the request was sent.
        hint: Another possible reason that the client knows of and the service does not; empty if there is none.
    """

    attempts: int = 1
    hint: str = ""

    def __init__(self, status: int, body: ErrorBody, retry_after_seconds: float | None = None) -> None:
        super().__init__(status, body, retry_after_seconds)
        self.status = status
        self.type: str = body.type
        self.reason: str | None = body.reason
        self.message: str = body.message
        self.fields: tuple[FieldError, ...] = tuple(body.fields)
        self.request_id: str | None = body.request_id
        self.retry_after_seconds = retry_after_seconds

    def __str__(self) -> str:
        request = f" (request {self.request_id})" if self.request_id else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.status} {self.reason or self.type}: {self.message}{hint}{request}{_after(self.attempts)}"


class BadRequest(APIError):
    """400: the request is invalid; ``fields`` says which part of it."""


class NoSuchResource(BadRequest, UnknownResource):
    """400 with the reason ``RESOURCE_NOT_FOUND``: the service does not know this resource of the device."""

    def __str__(self) -> str:
        # The service names its route. The method of the client does the same.
        return _LISTING.sub(r"client.devices.resources('\1') lists", super().__str__())


class BeforeHistory(BadRequest):
    """400 with the reason ``BEFORE_HISTORY``: an instant is before the stored history of the service."""

    hint: str = "error.oldest_at is that instant, and client.history(begin=None) starts there"

    @property
    def oldest_at(self) -> datetime | None:
        """The oldest possible instant; ``None`` if the service does not return it."""
        body: ErrorBody = self.args[1]
        try:
            return wire_history.BeforeHistoryBody.model_validate(body.model_dump()).oldest_at
        except ValidationError:
            return None


class AuthenticationError(APIError):
    """401: there is no access key, or the service does not know it."""


class AccessDenied(APIError):
    """403: the access key lacks the scope that this call requires."""


class NotFound(APIError):
    """404: the device, or the requested object, does not exist."""


class UnknownDevice(NotFound):
    """No device has this id or endpoint name; the message lists similar names."""


class UnknownQuery(NotFound):
    """No saved query has this name; the message says how to list them."""


class NoHistory(NotFound):
    """404: the service keeps no history; its operator enables it with ``mirror-server run --keep-history 30d``."""


class Conflict(APIError):
    """409: the request conflicts with an existing object, such as another request with the same async-id."""


class ChannelGone(APIError):
    """410: the notification channel was deleted while it was read."""


class PreconditionFailed(APIError):
    """412: the object has changed since it was read, so nothing was changed. Read it again and repeat the call.

    Attributes:
        resource: For a write with ``if_match``, the resource as it is now. If you still want to write, pass
            ``if_match=error.resource``. ``None`` if the service does not return it.
    """

    resource: Resource | None = None


class LimitExceeded(APIError):
    """429: a limit is reached, for example a full queue of device requests (``reason`` is ``QUEUE_IS_FULL``)."""


class ServerError(APIError):
    """5xx: the service itself failed; the same request may succeed later."""


class DeviceRequestFailed(MirrorError):
    """A device request was accepted, and its async response reports a failure. Source: wire.md 5.

    Attributes:
        category: The cause in one word. A service may send words that this version does not know.
        status: Status of the async response.
        device_id: The device.
        path: The resource path.
        async_id: The id of the request and its async response.
        method: ``GET`` read, ``PUT`` write, ``POST`` execute; ``None`` if unknown.
        device_name: The endpoint name that was passed for the device; ``None`` if the request was made by its id.
        hint: What to do next.
    """

    def __init__(
        self,
        category: str,
        status: int,
        device_id: str,
        path: str,
        async_id: str,
        method: Method | None = None,
        device_name: str | None = None,
    ) -> None:
        super().__init__(category, status, device_id, path, async_id, method, device_name)
        self.category = category
        self.status = status
        self.device_id = device_id
        self.path = path
        self.async_id = async_id
        self.method = method
        self.device_name = device_name
        self.hint: str = failure_reason(category, method)

    def __str__(self) -> str:
        device = device_text(self.device_id, self.device_name)
        return f"{visible_line(self.category)} ({self.status}) for {self.path} of device {device}: {self.hint}"


class RequestExpired(DeviceRequestFailed):
    """The request was not delivered before ``expiry_seconds`` were over.

    The device was not connected, or was still processing an earlier request: it gets one at a time.
    """


class ResourceNotFound(DeviceRequestFailed, UnknownResource):
    """The device reports that it does not have this resource."""


class WriteRejected(DeviceRequestFailed):
    """The device rejected the request: the resource is not writable, or the value is not valid for it.

    Rejected reads and executes are subclasses, so ``except WriteRejected`` handles these too.
    """


class ReadRejected(WriteRejected):
    """The device rejected a read: the resource is executable or write-only, or ``accept`` is not supported."""


class ExecuteRejected(WriteRejected):
    """The device rejected an execution: the resource is not executable, or the argument is not valid."""


class DeviceUnavailable(DeviceRequestFailed):
    """The device left, was not reachable or did not respond; whether it acted is unknown."""


class GapWarning(UserWarning):
    """Entries of the notification log were deleted before they could be read.

    An iterator over events has lost some. A missing response to a request may be among them.
    """


class CompatibilityWarning(UserWarning):
    """The service sends something that this version does not know; it was kept without interpretation."""


class SnapshotWarning(UserWarning):
    """A snapshot was taken in another way than requested: device by device, or complete instead of the changes."""


class NotSubscribedWarning(UserWarning):
    """No rule and no subscription of the key covers a path that is to be recorded: its values do not arrive."""


class EmptyTableWarning(UserWarning):
    """A table that names devices or resources has no rows, or no device has any of the paths."""


class UnitWarning(UserWarning):
    """The numbers of a resource have several units, or the unit of some is unknown.

    A device may change the unit in resource 5701, and the unit before its first value is unknown.
    """


def _after(attempts: int) -> str:
    return f" (after {attempts} attempts)" if attempts > 1 else ""


def device_text(device_id: str, name: str | None) -> str:
    """Return the id of a device for a message, after the name that the caller passed for it."""
    return device_id if name is None else f"{visible_line(name)} ({device_id})"


def failure_reason(category: str, method: Method | None) -> str:
    """Describe why a device request failed and what to do next, by its category and method."""
    unknown = "the operator of the device may know what this category means"
    return _OTHER_HINTS.get((category, method)) or CATEGORY_HINTS.get(category, unknown)


CATEGORY_HINTS = {
    "REQUEST_EXPIRED": (
        "it was not delivered in time: the device was not connected, or did not respond to an earlier request;"
        " check that it is up, or pass a larger expiry_seconds"
    ),
    "DEVICE_REMOVED_REGISTRATION": "the device deregistered; send the request again after its next registration",
    "RESOURCE_NOT_FOUND": "the device has no such resource; client.devices.resources(device_id) shows what it has",
    "METHOD_NOT_ALLOWED": "the resource does not allow this; it may be read-only",
    "BAD_VALUE": "the device does not accept this value; check its type and range",
    "REJECTED": "the device rejected the request; its own log may say why",
    "PRECONDITION_FAILED": "the device cannot do this in its current state",
    "TOO_LARGE": "the value is too large for the device; send less at once",
    "UNSUPPORTED_CONTENT_TYPE": "the device does not support this content type; pass another content_type",
    "NOT_CONNECTED": "the device cannot be reached; try again later",
    "TIMEOUT": "the device did not respond in time; read the resource to see whether it acted",
}
"""What to do next for each category of a failed device request, worded for a write."""

_OTHER_HINTS: dict[tuple[str, Method | None], str] = {
    ("METHOD_NOT_ALLOWED", "GET"): "the resource cannot be read; it may be executable or write-only",
    ("METHOD_NOT_ALLOWED", "POST"): "the resource cannot be executed; it may be readable or writable",
    ("BAD_VALUE", "GET"): "the device does not understand the request",
    ("BAD_VALUE", "POST"): "the device does not accept this argument",
    ("TOO_LARGE", "GET"): "the response is too large for the device; read less at once",
    ("TOO_LARGE", "POST"): "the argument is too large for the device",
    ("UNSUPPORTED_CONTENT_TYPE", "GET"): "the device cannot respond in this content type; pass another accept",
    ("UNSUPPORTED_CONTENT_TYPE", "POST"): "the device does not accept an argument as text",
    ("TIMEOUT", "GET"): "the device did not respond in time; try again later",
    ("TIMEOUT", "POST"): "the device did not respond in time; whether it acted is unknown",
}
"""The same for reads and executions, where they need other words."""

_RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
_LISTING = re.compile(r"\bGET /v2/endpoints/(\w+) lists")

_BY_STATUS: dict[int, type[APIError]] = {
    400: BadRequest,
    401: AuthenticationError,
    403: AccessDenied,
    404: NotFound,
    409: Conflict,
    410: ChannelGone,
    412: PreconditionFailed,
    429: LimitExceeded,
}

_BY_REASON: dict[tuple[type[APIError], str | None], type[APIError]] = {
    (BadRequest, _RESOURCE_NOT_FOUND): NoSuchResource,
    (BadRequest, wire_history.BEFORE_HISTORY): BeforeHistory,
    (NotFound, wire_history.NO_HISTORY): NoHistory,
}

_BY_CATEGORY: dict[str, type[DeviceRequestFailed]] = {
    "REQUEST_EXPIRED": RequestExpired,
    _RESOURCE_NOT_FOUND: ResourceNotFound,
    "METHOD_NOT_ALLOWED": WriteRejected,
    "BAD_VALUE": WriteRejected,
    "REJECTED": WriteRejected,
    "PRECONDITION_FAILED": WriteRejected,
    "TOO_LARGE": WriteRejected,
    "UNSUPPORTED_CONTENT_TYPE": WriteRejected,
    "DEVICE_REMOVED_REGISTRATION": DeviceUnavailable,
    "NOT_CONNECTED": DeviceUnavailable,
    "TIMEOUT": DeviceUnavailable,
}

_REJECTED: dict[Method | None, type[WriteRejected]] = {"GET": ReadRejected, "POST": ExecuteRejected}

UNCERTAIN_CATEGORIES = frozenset(category for category, kind in _BY_CATEGORY.items() if kind is DeviceUnavailable)
"""Categories of failures after which it is unknown whether the device acted."""


def api_error(status: int, body: ErrorBody, retry_after_seconds: float | None = None) -> APIError:
    """Return the error for a response with this status; a 4xx without a class of its own is a plain ``APIError``."""
    kind = ServerError if status >= 500 else _BY_STATUS.get(status, APIError)
    kind = _BY_REASON.get((kind, body.reason), kind)
    return kind(status, body, retry_after_seconds)


def device_request_failed(
    *,
    category: str,
    status: int,
    device_id: str,
    path: str,
    async_id: str,
    method: Method | None = None,
    device_name: str | None = None,
) -> DeviceRequestFailed:
    """Return the error for an async response; a category without a class is a plain ``DeviceRequestFailed``."""
    kind = _BY_CATEGORY.get(category, DeviceRequestFailed)
    if kind is WriteRejected:
        kind = _REJECTED.get(method, WriteRejected)
    return kind(category, status, device_id, path, async_id, method, device_name)
