"""The models of device requests (E2). Source: specification E2; wire.md 2."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mirror_sdk.wire.device_object import ResourceState, Revision
from mirror_sdk.wire.directory import PRINTABLE, check_printable
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.model import EntryPage, Order, Payload, Timestamp, WireModel
from mirror_sdk.wire.notifications import AsyncResponse
from mirror_sdk.wire.paths import PATH_PATTERN, check_path

ASYNC_ID_PATTERN = r"^[A-Za-z0-9_\-]{1,64}$"
MAX_EXPIRY_SECONDS = 30 * 24 * 3600
DEFAULT_EXPIRY_SECONDS = 2 * 3600
"""The default time in seconds for which a device request waits for its device."""
DEFAULT_EXPIRY_SECONDS_QUEUE_MODE = 3 * 24 * 3600
"""The default time in seconds for a device in queue mode, which sleeps between contacts."""
MAX_RETRIES = 10
MEDIA_TYPE_PATTERN = r"^[!-~](?:[ -~]*[!-~])?$"
"""A regular expression for a content type with any parameters."""
MAX_MEDIA_TYPE = 64
DEFAULT_CONTENT_TYPE = "text/plain"
"""The content type of a value that is written without a content type."""

QUEUE_LIMIT = 20
NEVER_WRITTEN = 0
"""The revision of a resource that was never written, for ``If-Match``. All other revisions are 1 or more."""
ANY_REVISION = "*"
"""The value of ``If-Match`` that matches any desired value."""
MAX_WAIT_SECONDS = 10
"""The maximum time in seconds for which the 202 can be delayed until the response is available (``Prefer: wait``)."""
DESIRED_CHANGED = "DESIRED_CHANGED"
"""The reason of a 412 response to a write, if the desired value has changed since the writer read it."""

NO_FAILED_WRITE = "NO_FAILED_WRITE"
"""The reason of a 409 response to an acknowledgement, if the write has not failed or is not the expected one."""
MAX_ACKNOWLEDGED_BY = 200
"""The maximum number of characters in the name of the person who acknowledges a failed write."""

Method = Literal["GET", "PUT", "POST"]
ExpirySeconds = Annotated[int, Field(strict=True, ge=1, le=MAX_EXPIRY_SECONDS)]


_QUERY = re.compile(r"[!-~]*")


def _check_uri(uri: str) -> str:
    path, _, query = uri.partition("?")
    check_path(path)
    if not _QUERY.fullmatch(query):
        raise ValueError("its query contains invalid characters; write notification rules like ?pmin=5&pmax=120")
    return uri


def _check_media_type(text: str) -> str:
    if not re.fullmatch(MEDIA_TYPE_PATTERN, text):
        raise ValueError(f"{text!r} is not a content type; write it like text/plain")
    return text


_MediaType = Annotated[
    str,
    Field(min_length=1, max_length=MAX_MEDIA_TYPE, json_schema_extra={"pattern": MEDIA_TYPE_PATTERN}),
    AfterValidator(_check_media_type),
]


_Path = Annotated[str, Field(max_length=255, json_schema_extra={"pattern": PATH_PATTERN}), AfterValidator(check_path)]
_By = Annotated[
    str,
    Field(min_length=1, max_length=MAX_ACKNOWLEDGED_BY, json_schema_extra=PRINTABLE),
    AfterValidator(check_printable),
]


class DeviceRequestBody(WireModel):
    """A request to a device: read (``GET``), write (``PUT``) or execute (``POST``) a resource.

    To set notification rules, send ``PUT`` without a payload and with a ``uri`` that has a query (``?pmin=5``).

    Attributes:
        method: The kind of the request: ``GET`` reads, ``PUT`` writes and ``POST`` executes.
        content_type: The content type of the payload. The default for a write is ``text/plain``.
        accept: The content type that the response should have.
        payload_b64: The value to write, or the argument of the execution. In JSON, it is base64.
        expiry_seconds: How many seconds the request may wait for the device. The default is
            :data:`DEFAULT_EXPIRY_SECONDS`, or :data:`DEFAULT_EXPIRY_SECONDS_QUEUE_MODE` for a device in queue mode.
            After this time, a request that was not sent to the device fails with 429 ``REQUEST_EXPIRED``. A request
            that was sent but has no response fails with 504 ``TIMEOUT``, and the device may have executed it.
    """

    method: Method
    uri: Annotated[
        str,
        Field(max_length=255, json_schema_extra={"pattern": PATH_PATTERN.replace("$", r"(?:\?[!-~]*)?$")}),
        AfterValidator(_check_uri),
    ]
    content_type: Annotated[_MediaType | None, Field(alias="content-type")] = None
    accept: _MediaType | None = None
    payload_b64: Annotated[Payload | None, Field(alias="payload-b64")] = None
    expiry_seconds: ExpirySeconds | None = None


class AcknowledgementBody(WireModel):
    """A failed write to acknowledge. An extension of the specification.

    Attributes:
        resource_path: The path of the resource.
        by: The name of the person who acknowledges the write. The default is the name of the access key.
        revision: The ``desired.revision`` that the caller has read. If it has changed since then, the request fails.
    """

    resource_path: _Path
    by: _By | None = None
    revision: Annotated[Revision, Field(strict=True)] | None = None


class WaitingRequest(WireModel):
    """A pending device request. An extension of the specification.

    ``state`` is ``waiting`` until the server sends the request to the device, and then ``with_device``. ``attempts`` is
    the number of failed attempts.

    Attributes:
        async_response_id: The async-id of the request, which the async response also contains.
        device_id: The id of the device.
        method: The kind of the request: ``GET`` reads, ``PUT`` writes and ``POST`` executes.
        uri: The resource path. It has a query if the request sets notification rules.
        placed_at: The time at which the server accepted the request.
        expires_at: The time at which the request expires.
    """

    object: Literal["device-request"] = "device-request"
    async_response_id: str
    device_id: str
    method: Method
    uri: str
    state: str
    placed_at: Timestamp
    expires_at: Timestamp
    attempts: int


class WaitingRequestPage(EntryPage):
    """A page of the application's pending device requests, oldest first. ``after`` is an async-id."""

    data: list[WaitingRequest]
    order: Order = "ASC"


class DesiredChanged(ErrorBody):
    """The body of a 412 response: the current state of the resource.

    To write anyway, use its revision. An extension of the specification.

    Attributes:
        resource: The current state of the resource, as in the device object.
    """

    resource: ResourceState


class DeviceRequestAccepted(WireModel):
    """The body of the 202 response.

    Attributes:
        async_response_id: The async-id of the request, which the async response also contains.
        async_response: The async response, in the form that a poll with ``after`` returns. It is present if the client
            sent ``Prefer: wait`` and the request ended in time. The notification log also contains it, under the number
            ``seq``. An extension of the specification.
    """

    async_response_id: Annotated[str, Field(alias="async-response-id")]
    async_response: Annotated[AsyncResponse | None, Field(alias="async-response")] = None
