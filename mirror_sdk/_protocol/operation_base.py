"""An operation of the service: the request to send, and the function that reads its response. There is no I/O here."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from mirror_sdk._formatting import visible_line, without_key
from mirror_sdk.config import is_loopback
from mirror_sdk.errors import (
    APIError,
    AuthenticationError,
    MirrorError,
    PreconditionFailed,
    UnexpectedResponse,
    api_error,
)
from mirror_sdk.wire.errors import ERROR_TYPES, ErrorBody
from mirror_sdk.wire.model import location_and_fault
from mirror_sdk.wire.routes import REQUEST_ID_HEADER

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

# In general, PATCH is not idempotent. Here it only sets values, so a repeated request has no further effect.
_IDEMPOTENT = frozenset({"GET", "PUT", "PATCH", "DELETE"})
_JSON, _PAGE = "application/json", "text/html"
_MAX_TYPE_LENGTH = 80
_NEW_KEY_OF_A_DEMO = (
    "'mirror-server demo' makes a new key at each start, unless --database stores it: copy the lines it prints"
)
# A number with more digits would mean a pause of decades, so the header must be wrong.
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]*)?")


class HTTPResponse(Protocol):
    """The part of an HTTP response that a reader uses."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Received:
    """A response whose body has been read completely."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Operation(Generic[T_co]):
    """A request and the reader of its response.

    Attributes:
        method: The HTTP method.
        path: The quoted path, relative to the base URL.
        read: A function that returns the result of a successful response.
        params: The query parameters.
        headers: The headers in addition to those of all requests.
        json: The body, or ``None`` for no body.
        hold_seconds: How many seconds the service may delay the response. The client adds this time to its own timeout.
        within_seconds: A limit for the whole operation, which applies if it is shorter than the timeout of the client.
        is_repeatable: Whether sending the request twice has the same effect as sending it once, although its method is
            ``POST``.
        max_retries: How many times the request may be repeated. ``None`` uses the client's setting.
        outlasts_loss: Whether the request is repeated until its timeout if the client or a proxy loses the connection.
            Held requests last so long that losses are likely, and the caller would wait anyway.
        also_reads: Statuses of 300 or more that are not errors for this request.
    """

    method: str
    path: str
    read: Callable[[HTTPResponse], T_co]
    params: Mapping[str, str | int | Sequence[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    hold_seconds: int = 0
    within_seconds: float = math.inf
    is_repeatable: bool = False
    max_retries: int | None = None
    outlasts_loss: bool = False
    also_reads: frozenset[int] = frozenset()

    def max_attempts(self, max_retries: int) -> int:
        """Return the maximum number of attempts, if the client has this setting for retries."""
        if not self.is_repeatable and self.method not in _IDEMPOTENT:
            return 1
        return 1 + (max_retries if self.max_retries is None else self.max_retries)

    def finish(self, response: HTTPResponse) -> T_co:
        """Return the result of the operation.

        Raises:
            APIError: The service responded with an error. The subclass depends on the status.
            UnexpectedResponse: The response does not follow the mirror API.
        """
        status = response.status_code
        if status in self.also_reads or 200 <= status < 300:
            # An HTML page comes from another web site at this address, or from a login page in between, even with
            # status 200.
            if content_type(response.headers) == _PAGE:
                raise UnexpectedResponse(f"{self.method} {self.path} returned a web page{elsewhere(response.headers)}")
            return self.read(response)
        if status >= 400:
            raise api_error(status, read_error_body(response), _read_retry_after(response))
        raise UnexpectedResponse(f"{self.method} {self.path} returned {status}{elsewhere(response.headers)}")


def read_json(validate: Callable[[bytes], T]) -> Callable[[HTTPResponse], T]:
    """Return a reader of JSON responses. ``validate`` returns the value or raises ``ValidationError``."""

    def read(response: HTTPResponse) -> T:
        try:
            return validate(response.content)
        except ValidationError as exc:
            hint = "" if content_type(response.headers) == _JSON else elsewhere(response.headers)
            raise UnexpectedResponse(f"the response does not follow the mirror API: {first_fault(exc)}{hint}") from exc

    return read


CHECK_ADDRESS = "check that base_url is the address of a mirror"
"""The remedy in errors about a response that no mirror sends."""


def elsewhere(headers: Mapping[str, str]) -> str:
    """Return the end of an error message about an unexpected response.

    It contains the content type of the response, and a hint that ``base_url`` may be the address of another program.
    """
    found = visible_line(content_type(headers)[:_MAX_TYPE_LENGTH])
    return f" ({f'content type {found}' if found else 'no content type'}); does base_url point elsewhere?"


def content_type(headers: Mapping[str, str]) -> str:
    """Return the media type without parameters, or an empty string if the headers contain none."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def first_fault(fault: ValidationError) -> str:
    """Describe the first validation error and its location, but not the invalid value."""
    location, message = location_and_fault(fault.errors(include_url=False, include_input=False)[0])
    return f"{location or 'body'}: {message}"


def hint_at_demo(error: MirrorError, base_url: str) -> None:
    """Add a hint to the error for a key that a mirror on this machine does not know."""
    if isinstance(error, AuthenticationError) and is_loopback(base_url):
        error.hint = _NEW_KEY_OF_A_DEMO


def hide_key(error: MirrorError, key: str) -> None:
    """Remove an access key that a service sent back from an error, and from the cause of the error."""
    error.args = tuple(_without_key(argument, key) for argument in error.args)
    if isinstance(error, APIError):
        # The attributes were derived from the arguments before the key was removed, so they are set again.
        APIError.__init__(error, *error.args)
    if isinstance(error, PreconditionFailed) and error.resource and _has_key(error.resource.to_dict(), key):
        error.resource = None
    if error.__cause__ is not None and _has_key(error.__cause__, key):
        # A traceback would print the cause. If there were no cause, it would print the context.
        error.__cause__, error.__suppress_context__ = None, True


def _has_key(value: object, key: str) -> bool:
    return without_key(str(value), key) != str(value)


def _without_key(value: Any, key: str) -> Any:
    if isinstance(value, ErrorBody):
        return ErrorBody.model_validate(_without_key(value.model_dump(), key))
    return _map_texts(value, lambda text: without_key(text, key))


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a copy of a JSON value in which a function has changed all strings, including the names of members."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(name): _map_texts(member, change) for name, member in value.items()}
    return [_map_texts(item, change) for item in value] if isinstance(value, list) else value


def read_error_body(response: HTTPResponse) -> ErrorBody:
    """Return the error in a response.

    If the response comes from a proxy instead of a mirror, the error has no explanation.
    """
    try:
        body = ErrorBody.model_validate_json(response.content)
    except ValidationError:
        status = response.status_code
        body = ErrorBody(code=status, type=ERROR_TYPES.get(status, "unknown"), message="no explanation was given")
    if body.request_id is None:
        body = body.model_copy(update={"request_id": response.headers.get(REQUEST_ID_HEADER)})
    # Errors are printed in terminals and logs, where control characters from a server could do harm.
    return ErrorBody.model_validate(_map_texts(body.model_dump(), visible_line))


def _read_retry_after(response: HTTPResponse) -> float | None:
    """Return the seconds in the header ``Retry-After``, which contains seconds or a time (RFC 9110 10.2.3)."""
    header = response.headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(header):
        return float(header)
    retry_at = _read_instant(header)
    if retry_at is None:
        return None
    # The time is from the sender's clock, so the sender's own current time is subtracted if the response contains it.
    responded_at = _read_instant(response.headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (retry_at - responded_at).total_seconds())


def _read_instant(header: str) -> datetime | None:
    try:
        instant = parsedate_to_datetime(header)
    except (OverflowError, TypeError, ValueError):
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
