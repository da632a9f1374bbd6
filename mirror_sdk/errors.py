"""All errors and warnings of this package.

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
        + DeviceRequestRejected
          x ReadRejected
          x WriteRejected
          x ExecuteRejected
        x DeviceUnavailable

A ``+`` marks a class with subclasses. Some classes also have a second base class:

- ``NoSuchResource`` and ``ResourceNotFound`` are also subclasses of ``UnknownResource``. Catch ``UnknownResource`` to
  handle all kinds of missing resources. Calls that list or end subscriptions do not raise it, because they accept
  resources that the device does not have.
- ``InvalidValue`` and ``AmbiguousName`` are also subclasses of ``ValueError``.
- ``UnknownResource`` is also a subclass of ``KeyError``.
- ``CallTimeout`` and ``WaitTimeout`` are also subclasses of ``TimeoutError``.

``mirror help client`` contains web applications that report these errors to their users.

Warnings::

    UserWarning
      x GapWarning
      x CompatibilityWarning
      x SnapshotWarning
      x NotSubscribedWarning
      x EmptyTableWarning
      x UnitWarning
      x ConditionWarning

No message and no attribute contains an access key.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from mirror_sdk._formatting import visible_line
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
    """A setting is missing or invalid. The message names the setting and where the client looks for it."""


class ClientClosed(MirrorError):
    """The client was closed by ``close()`` or at the end of its ``with`` block. Create a new client."""


class UnknownResource(MirrorError, KeyError):
    """The device does not have this resource.

    If the error comes from a device object or from ``explain``, the message lists similar paths. If the service reports
    the error, it is a :class:`NoSuchResource`. If the device reports it, it is a :class:`ResourceNotFound`.
    """

    def __str__(self) -> str:
        # The method of KeyError would put the message in quotes.
        return str(self.args[0])


class AmbiguousName(MirrorError, ValueError):
    """Several devices have this endpoint name. The message lists their ids. Pass one of the ids."""


class RecordingDamaged(MirrorError):
    """A file of a recording was changed or damaged. The message contains the name of the file."""


class CassetteDamaged(MirrorError):
    """A file is not a cassette, or the cassette was changed or damaged. The message contains the name of the file."""


class NotRecorded(MirrorError):
    """The cassette has no response to this request, because the request was not sent during the recording.

    The message contains the name of the cassette and the request.
    """


class InvalidValue(MirrorError, ValueError):
    """An argument is not valid, and no request was sent. The message describes the valid values."""


class ConnectionFailed(MirrorError):
    """The service could not be reached, or the connection was lost before the response was complete.

    Attributes:
        attempts: How many times the request was sent.
        was_sent: Whether the last request may have reached the service. In this case, the service may have processed
            it.
    """

    attempts: int = 1
    was_sent: bool = False

    def __str__(self) -> str:
        return super().__str__() + _after(self.attempts)


class CallTimeout(ConnectionFailed, TimeoutError):
    """The call took longer than its ``timeout``, which includes all attempts and pages.

    It is unknown whether the service processed the request. You can safely send a device request again with the same
    async-id.
    """


class UnexpectedResponse(MirrorError):
    """The response is not one that a device state mirror would send.

    Usually ``base_url`` is the address of another program, so check it.
    """


class WaitTimeout(MirrorError, TimeoutError):
    """The wait for a device or an event took too long. The request itself continues, so you can wait for it again."""


class APIError(MirrorError):
    """The service rejected a request.

    Attributes:
        status: The HTTP status code.
        type: The kind of error in one word, such as ``not_found``.
        reason: The error code of the public API, such as ``QUEUE_IS_FULL``, or ``None`` if there is no code.
        message: The service's description of the problem and of the next step.
        fields: The invalid fields of the request, each with a description of the problem.
        request_id: The id of this request in the service's log, or ``None`` if the service did not send an id.
        retry_after_seconds: The time in seconds to wait before the next attempt, or ``None`` if the service did not
            send it.
        attempts: How many times the request was sent.
        hint: A possible reason that only the client knows. It is empty if there is no such reason.
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
    """400: the request is not valid. ``fields`` lists the invalid parts."""


class NoSuchResource(BadRequest, UnknownResource):
    """400 with the reason ``RESOURCE_NOT_FOUND``: the service does not know this resource of the device."""

    def __str__(self) -> str:
        # The message contains the HTTP route to list resources, which is replaced by the corresponding client method.
        return _LISTING.sub(r"client.devices.resources('\1') lists", super().__str__())


class BeforeHistory(BadRequest):
    """400 with the reason ``BEFORE_HISTORY``: the requested time is before the start of the stored history."""

    hint: str = "error.oldest_at has the start"

    def __str__(self) -> str:
        # The message begins with the parameter of the request, which may not be an argument of the method.
        return _PARAMETER.sub(": ", super().__str__(), count=1)

    @property
    def oldest_at(self) -> datetime | None:
        """The start of the stored history, or ``None`` if the service did not return it."""
        body: ErrorBody = self.args[1]
        try:
            return wire_history.BeforeHistoryBody.model_validate(body.model_dump()).oldest_at
        except ValidationError:
            return None


class AuthenticationError(APIError):
    """401: the request has no access key, or the service does not know the key."""


class AccessDenied(APIError):
    """403: the access key does not have the scope that this call requires."""


class NotFound(APIError):
    """404: the device or another requested object does not exist."""


class UnknownDevice(NotFound):
    """No device has this id or endpoint name. The message lists similar names."""


class UnknownQuery(NotFound):
    """No saved query has this name. The message shows how to list the queries."""


class NoHistory(NotFound):
    """404: the service stores no history. Its operator can enable it with ``mirror-server run --keep-history 30d``."""


class Conflict(APIError):
    """409: the request conflicts with an existing object, such as another request with the same async-id."""


class ChannelGone(APIError):
    """410: the notification channel was deleted while the client was reading it."""


class PreconditionFailed(APIError):
    """412: the object has changed since you read it, so the service did not apply your change.

    Read the object again and repeat the call.

    Attributes:
        resource: The current state of the resource, if the failed call was a write with ``if_match``. To write anyway,
            pass ``if_match=error.resource``. The attribute is ``None`` if the service does not return the resource.
    """

    resource: Resource | None = None


class LimitExceeded(APIError):
    """429: a limit was reached. For example, the queue of a device is full if ``reason`` is ``QUEUE_IS_FULL``."""


class ServerError(APIError):
    """5xx: the service failed while it processed the request. The same request may succeed later."""


class DeviceRequestFailed(MirrorError):
    """The service accepted a device request, but the request failed later.

    Attributes:
        category: The cause in one word, such as ``TIMEOUT``. A newer service may send words that this version does not
            know.
        status: The status code of the async response.
        device_id: The id of the device.
        path: The resource path.
        async_id: The async-id of the request and its response.
        method: The kind of the request: ``GET`` is a read, ``PUT`` a write and ``POST`` an execution. It is ``None`` if
            unknown.
        device_name: The endpoint name that the caller passed, or ``None`` if the caller passed an id.
        hint: A description of what to do next.
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
    """The service could not deliver the request within ``expiry_seconds``.

    Either the device was not connected, or it was still processing an earlier request. The service sends a device only
    one request at a time.
    """


class ResourceNotFound(DeviceRequestFailed, UnknownResource):
    """The device reports that it does not have this resource."""


class DeviceRequestRejected(DeviceRequestFailed):
    """The device rejected a read, a write or an execution, and nothing changed. ``category`` is the reason."""


class ReadRejected(DeviceRequestRejected):
    """The device rejected a read: the resource is executable or write-only, or ``accept`` is not supported."""


class WriteRejected(DeviceRequestRejected):
    """The device rejected a write: the resource is not writable, or the value is not valid for it."""


class ExecuteRejected(DeviceRequestRejected):
    """The device rejected an execution: the resource is not executable, or the argument is not valid."""


class DeviceUnavailable(DeviceRequestFailed):
    """The device deregistered, was not reachable or did not respond. It may nevertheless have executed the request."""


class GapWarning(UserWarning):
    """The service deleted entries of the notification log before the client could read them.

    Events or the response to a request may be missing.
    """


class CompatibilityWarning(UserWarning):
    """The service sent notifications that this version of the client cannot interpret.

    The client returns them unchanged.
    """


class SnapshotWarning(UserWarning):
    """The service could not send the requested snapshot, so the client fetched the devices in another way.

    It fetched them one by one, or it fetched all devices instead of only the changes.
    """


class NotSubscribedWarning(UserWarning):
    """A path that is to be recorded is not covered by any rule or subscription of this access key.

    The recording will therefore not contain values of this path.
    """


class EmptyTableWarning(UserWarning):
    """A table of devices or resources has no rows, or no device has any of the requested paths."""


class UnitWarning(UserWarning):
    """The values of a resource in a table do not all have the same unit, or the unit of some of them is unknown.

    A device reports the unit of a sensor in resource 5701, and can change it. Until the device has reported that
    resource, the unit is unknown.
    """


class ConditionWarning(UserWarning):
    """The test of a condition does not apply to the type of a value, such as ``above=25`` to a string.

    The state of the condition is unknown while the resource has such a value. A watch also issues this warning if no
    registered device has the path of a condition.
    """


def _after(attempts: int) -> str:
    return f" (after {attempts} attempts)" if attempts > 1 else ""


def device_text(device_id: str, name: str | None) -> str:
    """Return a device id for a message, in parentheses after the name if the caller passed one."""
    return device_id if name is None else f"{visible_line(name)} ({device_id})"


def failure_reason(category: str, method: Method | None) -> str:
    """Describe the reason why a device request failed, and what to do next, from its category and method."""
    unknown = "the operator of the device may know what this category means"
    return _OTHER_HINTS.get((category, method)) or CATEGORY_HINTS.get(category, unknown)


CATEGORY_HINTS = {
    "REQUEST_EXPIRED": (
        "the request expired before it could be delivered: the device was not connected, or was still busy with an"
        " earlier request; check the device, or pass a larger expiry_seconds"
    ),
    "DEVICE_REMOVED_REGISTRATION": "the device deregistered; send the request again after its next registration",
    "RESOURCE_NOT_FOUND": "the device has no such resource; client.devices.resources(device_id) shows what it has",
    "METHOD_NOT_ALLOWED": "the resource does not allow this; it may be read-only",
    "BAD_VALUE": "the device does not accept this value; check its type and range",
    "REJECTED": "the device rejected the request; its own log may say why",
    "PRECONDITION_FAILED": "the device cannot do this in its current state",
    "TOO_LARGE": "the value is too large for the device; send less at once",
    "UNSUPPORTED_CONTENT_TYPE": "the device does not support this content type; pass another content_type",
    "NOT_CONNECTED": "the connection to the device was lost; read the resource to see whether the device acted",
    "TIMEOUT": "the device did not respond in time; read the resource to see whether it acted",
}
"""The reason and the next step for each category of a failed write, and of other requests if nothing else is listed."""

_OTHER_HINTS: dict[tuple[str, Method | None], str] = {
    ("METHOD_NOT_ALLOWED", "GET"): "the resource cannot be read; it may be executable or write-only",
    ("METHOD_NOT_ALLOWED", "POST"): "the resource cannot be executed; it may be readable or writable",
    ("BAD_VALUE", "GET"): "the device does not understand the request",
    ("BAD_VALUE", "POST"): "the device does not accept this argument",
    ("TOO_LARGE", "GET"): "the response is too large for the device; read less at once",
    ("TOO_LARGE", "POST"): "the argument is too large for the device",
    ("UNSUPPORTED_CONTENT_TYPE", "GET"): "the device cannot respond in this content type; pass another one as accept=",
    ("UNSUPPORTED_CONTENT_TYPE", "POST"): "the device does not accept an argument as text",
    ("NOT_CONNECTED", "GET"): "the connection to the device was lost; try again later",
    ("NOT_CONNECTED", "POST"): "the connection to the device was lost; whether it acted is unknown",
    ("TIMEOUT", "GET"): "the device did not respond in time; try again later",
    ("TIMEOUT", "POST"): "the device did not respond in time; whether it acted is unknown",
}
"""The reason and the next step for failed reads and executions, if those for writes do not apply to them."""

_RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
_PARAMETER = re.compile(r": \w+: ")
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
    "METHOD_NOT_ALLOWED": DeviceRequestRejected,
    "BAD_VALUE": DeviceRequestRejected,
    "REJECTED": DeviceRequestRejected,
    "PRECONDITION_FAILED": DeviceRequestRejected,
    "TOO_LARGE": DeviceRequestRejected,
    "UNSUPPORTED_CONTENT_TYPE": DeviceRequestRejected,
    "DEVICE_REMOVED_REGISTRATION": DeviceUnavailable,
    "NOT_CONNECTED": DeviceUnavailable,
    "TIMEOUT": DeviceUnavailable,
}

_REJECTED: dict[Method | None, type[DeviceRequestRejected]] = {
    "GET": ReadRejected,
    "PUT": WriteRejected,
    "POST": ExecuteRejected,
}

UNCERTAIN_CATEGORIES = frozenset(category for category, kind in _BY_CATEGORY.items() if kind is DeviceUnavailable)
"""Categories of failures after which it is unknown whether the device executed the request."""


def api_error(status: int, body: ErrorBody, retry_after_seconds: float | None = None) -> APIError:
    """Return the error for a response with this status. A 4xx status without a class of its own is an ``APIError``."""
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
    """Return the error for an async response. A category without a class of its own is a ``DeviceRequestFailed``."""
    kind = _BY_CATEGORY.get(category, DeviceRequestFailed)
    if kind is DeviceRequestRejected:
        kind = _REJECTED.get(method, DeviceRequestRejected)
    return kind(category, status, device_id, path, async_id, method, device_name)
