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
      x UnexpectedAnswer
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

Those with a ``+`` have kinds of their own. ``NoSuchResource`` and ``ResourceNotFound`` are an ``UnknownResource`` too:
that is what every call raises that needs a resource the device does not have; to ask for its subscription, or to end
it, needs none. Some are errors of Python as well:
``InvalidValue`` and ``AmbiguousName`` are a ``ValueError``, ``UnknownResource`` is a ``KeyError``, ``CallTimeout`` and
``WaitTimeout`` are a ``TimeoutError``.
Web applications that tell their users of them are in ``help(mirror_sdk)``.

Warnings::

    UserWarning
      x GapWarning
      x CompatibilityWarning
      x SnapshotWarning
      x NotSubscribedWarning
      x EmptyTableWarning
      x UnitWarning

An access key is in no message and in no attribute of any of them.
"""

from __future__ import annotations

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
    """Anything that goes wrong in this package."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class ConfigError(MirrorError):
    """A setting is missing or cannot be used; the message says which one and where it was looked for."""


class ClientClosed(MirrorError):
    """The client was closed, by ``close()`` or at the end of its ``with`` block; make a new one."""


class UnknownResource(MirrorError, KeyError):
    """The device does not have this resource; what a device object or ``explain`` raises lists close paths.

    Where the service says so it is a :class:`NoSuchResource` as well, and where the device does a
    :class:`ResourceNotFound`.
    """

    def __str__(self) -> str:
        # A KeyError would show its message in quotes.
        return str(self.args[0])


class AmbiguousName(MirrorError, ValueError):
    """Several devices have this endpoint name; the message lists their ids, of which one is to be given."""


class RecordingDamaged(MirrorError):
    """A file of a recording is not as it was written; the message names it."""


class CassetteDamaged(MirrorError):
    """A file is no cassette, or is not as it was written; the message names it."""


class NotRecorded(MirrorError):
    """A cassette has no answer to a request, since that was not made when it was recorded; the message names both."""


class InvalidValue(MirrorError, ValueError):
    """A value or another argument is invalid. Nothing was sent; the message names it and says what is valid."""


class ConnectionFailed(MirrorError):
    """The service could not be reached, or the connection was lost before its answer was complete.

    Attributes:
        attempts: How often it was tried.
        was_sent: Whether the last request may have arrived, so that the service may have acted.
    """

    attempts: int = 1
    was_sent: bool = False

    def __str__(self) -> str:
        return super().__str__() + _after(self.attempts)


class CallTimeout(ConnectionFailed, TimeoutError):
    """The call took longer than its ``timeout``, all its attempts and pages together.

    Whether the service acted is not known; what is placed by its async-id may be placed again under the same one.
    """


class UnexpectedAnswer(MirrorError):
    """What answered does not speak this interface; most often the address is that of something else."""


class WaitTimeout(MirrorError, TimeoutError):
    """The wait is over, the request is not: it may still finish, and its handle can be asked again."""


class APIError(MirrorError):
    """The service refused a request. Source: wire.md 0.

    Attributes:
        status: HTTP status.
        type: The kind of error in one word, for example ``not_found``.
        reason: The error word of the public API (``QUEUE_IS_FULL``) where it has one, else ``None``.
        message: What is wrong and what to do next, in the service's words.
        fields: What is wrong with which field.
        request_id: What the service's log calls this request.
        retry_after_seconds: How long the service asks to wait before the next try, where it says so.
        attempts: How often it was tried.
        hint: What else may be the reason, where the client knows something that the service does not; empty elsewhere.
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
    """400: the request is not one the service understands; ``fields`` says what is wrong with it."""


class NoSuchResource(BadRequest, UnknownResource):
    """400 with the reason ``RESOURCE_NOT_FOUND``: the service knows of no such resource of the device."""


class BeforeHistory(BadRequest):
    """400 with the reason ``BEFORE_HISTORY``: an instant lies before what the service's history keeps."""

    @property
    def oldest_at(self) -> datetime | None:
        """The oldest instant there is; ``None`` where the service does not tell it."""
        body: ErrorBody = self.args[1]
        try:
            return wire_history.BeforeHistoryBody.model_validate(body.model_dump()).oldest_at
        except ValidationError:
            return None


class AuthenticationError(APIError):
    """401: there is no access key, or the service does not know it."""


class AccessDenied(APIError):
    """403: the access key does not have the scope this needs."""


class NotFound(APIError):
    """404: there is no such device, or nothing of this kind."""


class UnknownDevice(NotFound):
    """No device has this id or endpoint name; the message lists close names."""


class UnknownQuery(NotFound):
    """No filter of the directory is saved under this name; the message tells how to list those that are."""


class NoHistory(NotFound):
    """404: the service keeps no history; its operator switches one on with ``mirror-server run --keep-history 30d``."""


class Conflict(APIError):
    """409: it contradicts something that is there already, such as another request with the same async-id."""


class ChannelGone(APIError):
    """410: the notification channel was deleted while it was read."""


class PreconditionFailed(APIError):
    """412: what was to be changed is not what was read any more; nothing was changed. Read it again and go on.

    Attributes:
        resource: Of a write with ``if_match``, the resource as it is now, for another look; if the write is still
            wanted, ``if_match=error.resource`` goes with it. ``None`` where the service does not tell.
    """

    resource: Resource | None = None


class LimitExceeded(APIError):
    """429: too much at once, for example a full queue of device requests (``reason`` is ``QUEUE_IS_FULL``)."""


class ServerError(APIError):
    """5xx: the service itself failed; the same request may succeed later."""


class DeviceRequestFailed(MirrorError):
    """A device request was accepted, and its async response says that it failed. Source: wire.md 5.

    Attributes:
        category: Why, in one word. An open set: a service may send words this version does not know.
        status: Status of the async response.
        device_id: The device that was asked.
        path: The resource path that was asked for.
        async_id: What the request and its async response have in common.
        method: ``GET`` read, ``PUT`` write, ``POST`` execute; ``None`` where that is not known.
        hint: What can be done about it.
    """

    def __init__(
        self, category: str, status: int, device_id: str, path: str, async_id: str, method: Method | None = None
    ) -> None:
        super().__init__(category, status, device_id, path, async_id, method)
        self.category = category
        self.status = status
        self.device_id = device_id
        self.path = path
        self.async_id = async_id
        self.method = method
        self.hint: str = failure_reason(category, method)

    def __str__(self) -> str:
        return f"{visible_line(self.category)} ({self.status}) for {self.path} of device {self.device_id}: {self.hint}"


class RequestExpired(DeviceRequestFailed):
    """The request was not delivered before ``expiry_seconds`` were over.

    The device was not connected, or had an earlier request in hand: it is sent one at a time.
    """


class ResourceNotFound(DeviceRequestFailed, UnknownResource):
    """The device says that it has no such resource."""


class WriteRejected(DeviceRequestFailed):
    """The device refused: the resource is not writeable, or the value is none it takes.

    A read or an execution that a device refused is one too, by the name all refusals once had.
    """


class ReadRejected(WriteRejected):
    """The device refused to be read: the resource is executable or write-only, or it cannot answer as was wished."""


class ExecuteRejected(WriteRejected):
    """The device refused to execute: the resource is none to be executed, or the argument is none it takes."""


class DeviceUnavailable(DeviceRequestFailed):
    """The device left, could not be reached, or did not answer; whether it acted is not known."""


class GapWarning(UserWarning):
    """Entries of the notification log were gone before they could be read.

    Who reads events has lost some; who waits for an answer is told where it has not come, for it may be among them.
    """


class CompatibilityWarning(UserWarning):
    """The service sends something this version does not know; it was kept, not understood."""


class SnapshotWarning(UserWarning):
    """A snapshot was taken in another way than was asked for: one device after another, or whole instead of changes."""


class NotSubscribedWarning(UserWarning):
    """What is to be recorded is covered by no rule and no subscription of the key: nothing of it comes."""


class EmptyTableWarning(UserWarning):
    """A table that was to name devices or resources has no rows; or no device has any of the paths."""


class UnitWarning(UserWarning):
    """The numbers of a resource are in several units, or the unit of some is unknown.

    A device may change the unit it names in resource 5701, and the unit before the first known name is unknown.
    """


def _after(attempts: int) -> str:
    return f" (after {attempts} attempts)" if attempts > 1 else ""


def failure_reason(category: str, method: Method | None) -> str:
    """Say in a sentence why a device request failed and what can be done about it, by its category and method."""
    unknown = "ask the operator of the device what this category means"
    return _OTHER_HINTS.get((category, method)) or CATEGORY_HINTS.get(category, unknown)


CATEGORY_HINTS = {
    "REQUEST_EXPIRED": (
        "it was not delivered in time: the device was not connected, or did not answer an earlier request;"
        " check that it is up, or give a larger expiry_seconds"
    ),
    "DEVICE_REMOVED_REGISTRATION": "the device deregistered; ask again after its next registration",
    "RESOURCE_NOT_FOUND": "the device has no such resource; client.devices.resources(device_id) shows what it has",
    "METHOD_NOT_ALLOWED": "the resource does not allow this; it may be read-only",
    "BAD_VALUE": "the device does not take this value; check its type and range",
    "REJECTED": "the device refused; its own log may say why",
    "PRECONDITION_FAILED": "the device is not in a state to do this now",
    "TOO_LARGE": "the value is too large for the device; send less at once",
    "UNSUPPORTED_CONTENT_TYPE": "the device does not read this content type; give another content_type",
    "NOT_CONNECTED": "the device cannot be reached; ask again later",
    "TIMEOUT": "the device did not answer in time; read the resource to see whether it acted",
}
"""What can be done about each category of a failed device request, in the words of a write."""

_OTHER_HINTS: dict[tuple[str, Method | None], str] = {
    ("METHOD_NOT_ALLOWED", "GET"): "the resource cannot be read; it may be executable or write-only",
    ("METHOD_NOT_ALLOWED", "POST"): "the resource cannot be executed; it may be one to be read or written",
    ("BAD_VALUE", "GET"): "the device does not understand the request",
    ("BAD_VALUE", "POST"): "the device does not take this argument",
    ("TOO_LARGE", "GET"): "the answer is too large for the device; read less at once",
    ("TOO_LARGE", "POST"): "the argument is too large for the device",
    ("UNSUPPORTED_CONTENT_TYPE", "GET"): "the device does not answer in this content type; give another accept",
    ("UNSUPPORTED_CONTENT_TYPE", "POST"): "the device takes no argument in text",
    ("TIMEOUT", "GET"): "the device did not answer in time; ask again later",
    ("TIMEOUT", "POST"): "the device did not answer in time; whether it acted is not known",
}
"""The same of reads and executions, where the words of a write do not fit."""

_RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"

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
"""Categories of failures after which nobody knows whether the device acted."""


def api_error(status: int, body: ErrorBody, retry_after_seconds: float | None = None) -> APIError:
    """The error of an answer with this status; a 4xx without a class of its own is a plain ``APIError``."""
    kind = ServerError if status >= 500 else _BY_STATUS.get(status, APIError)
    kind = _BY_REASON.get((kind, body.reason), kind)
    return kind(status, body, retry_after_seconds)


def device_request_failed(
    *, category: str, status: int, device_id: str, path: str, async_id: str, method: Method | None = None
) -> DeviceRequestFailed:
    """The error of an async response with this category; one without a class is a plain ``DeviceRequestFailed``."""
    kind = _BY_CATEGORY.get(category, DeviceRequestFailed)
    if kind is WriteRejected:
        kind = _REJECTED.get(method, WriteRejected)
    return kind(category, status, device_id, path, async_id, method)
