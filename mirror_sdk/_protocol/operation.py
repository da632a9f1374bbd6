"""One exchange with the service: the request to send, and how its answer is read. Nothing in here does I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Generic, Protocol, TypeVar

from pydantic import ValidationError

from mirror_sdk._visible import visible_line, without_key
from mirror_sdk.config import is_loopback
from mirror_sdk.errors import (
    APIError,
    AuthenticationError,
    MirrorError,
    PreconditionFailed,
    UnexpectedAnswer,
    api_error,
)
from mirror_sdk.wire.errors import ERROR_TYPES, ErrorBody
from mirror_sdk.wire.model import place_and_fault
from mirror_sdk.wire.routes import REQUEST_ID_HEADER

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_IDEMPOTENT = frozenset({"GET", "PUT", "PATCH", "DELETE"})
_JSON, _PAGE = "application/json", "text/html"
_LONGEST_TYPE = 80
_NEW_KEY_OF_A_DEMO = (
    "'mirror-server demo' makes a new key at each start, unless --database keeps it: take over the lines it prints"
)
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]*)?")


class HTTPResponse(Protocol):
    """What is read of an HTTP answer."""

    @property
    def status_code(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Received:
    """An answer that has arrived as a whole."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Operation(Generic[T_co]):
    """One request and the reader of its answer.

    Attributes:
        method: HTTP method.
        path: Path below the base URL, quoted.
        read: Reads an answer that is not an error.
        params: Query parameters.
        headers: Headers besides those of every request.
        json: Body, or ``None`` for none.
        hold_seconds: For how long the service may hold the answer back; it comes on top of a client's time-out.
        within_seconds: How long all of it may take at most, where a client gives it more time.
        is_repeatable: Whether it means the same twice as once, whatever its method.
        max_retries: How often it may be sent again; ``None`` goes by the client.
        outlasts_loss: Whether it is sent again until its time is over where the connection is lost under it, here or
            at a proxy: what is held open is on its way for long, and whoever waits would go on waiting.
        also_reads: Statuses from 300 on that are no error here.
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

    def most_attempts(self, max_retries: int) -> int:
        """How often a client with so many retries may send it."""
        if not self.is_repeatable and self.method not in _IDEMPOTENT:
            return 1
        return 1 + (max_retries if self.max_retries is None else self.max_retries)

    def finish(self, answer: HTTPResponse) -> T_co:
        """The result.

        Raises:
            APIError: The service refused; which subclass depends on the status.
            UnexpectedAnswer: It is not an answer of this interface.
        """
        status = answer.status_code
        if status in self.also_reads or 200 <= status < 300:
            if content_type(answer.headers) == _PAGE:
                raise UnexpectedAnswer(f"{self.method} {self.path} returned a page{elsewhere(answer.headers)}")
            return self.read(answer)
        if status >= 400:
            raise api_error(status, read_error_body(answer), _read_retry_after(answer))
        raise UnexpectedAnswer(f"{self.method} {self.path} returned {status}{elsewhere(answer.headers)}")


def read_json(validate: Callable[[bytes], T]) -> Callable[[HTTPResponse], T]:
    """A reader of JSON answers, from what makes a value of the JSON or raises ``ValidationError``."""

    def read(answer: HTTPResponse) -> T:
        try:
            return validate(answer.content)
        except ValidationError as exc:
            place = "" if content_type(answer.headers) == _JSON else elsewhere(answer.headers)
            raise UnexpectedAnswer(f"the response does not follow the interface: {first_fault(exc)}{place}") from exc

    return read


def elsewhere(headers: Mapping[str, str]) -> str:
    """What an answer seems to be that is none of this interface, and the likely reason."""
    found = visible_line(content_type(headers)[:_LONGEST_TYPE])
    return f" ({f'content type {found}' if found else 'no content type'}); does base_url point elsewhere?"


def content_type(headers: Mapping[str, str]) -> str:
    """The media type alone; empty where none is told."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def first_fault(fault: ValidationError) -> str:
    """What is wrong first, and where, without the value itself."""
    place, words = place_and_fault(fault.errors(include_url=False, include_input=False)[0])
    return f"{place or 'body'}: {words}"


def hint_at_demo(error: MirrorError, base_url: str) -> None:
    """Say of a key that a mirror on this machine does not know where it may have been good."""
    if isinstance(error, AuthenticationError) and is_loopback(base_url):
        error.hint = _NEW_KEY_OF_A_DEMO


def hide_key(error: MirrorError, key: str) -> None:
    """Take an access key out of an error in which a service says it back, and out of what caused it."""
    error.args = tuple(_without_key(argument, key) for argument in error.args)
    if isinstance(error, APIError):
        APIError.__init__(error, *error.args)
    if isinstance(error, PreconditionFailed) and error.resource and key in str(error.resource.to_dict()):
        error.resource = None
    if error.__cause__ is not None and without_key(str(error.__cause__), key) != str(error.__cause__):
        error.__cause__, error.__suppress_context__ = None, True


def _without_key(told: Any, key: str) -> Any:
    if isinstance(told, ErrorBody):
        return ErrorBody.model_validate(_without_key(told.model_dump(), key))
    return _each_text(told, lambda text: without_key(text, key))


def _each_text(told: Any, change: Callable[[str], str]) -> Any:
    """The same JSON with its texts changed, names of members too."""
    if isinstance(told, str):
        return change(told)
    if isinstance(told, dict):
        return {change(name): _each_text(value, change) for name, value in told.items()}
    return [_each_text(value, change) for value in told] if isinstance(told, list) else told


def read_error_body(answer: HTTPResponse) -> ErrorBody:
    """The error as the service words it; something in between, such as a proxy, words it in its own way."""
    try:
        body = ErrorBody.model_validate_json(answer.content)
    except ValidationError:
        status = answer.status_code
        body = ErrorBody(code=status, type=ERROR_TYPES.get(status, "unknown"), message="no explanation was given")
    if body.request_id is None:
        body = body.model_copy(update={"request_id": answer.headers.get(REQUEST_ID_HEADER)})
    return ErrorBody.model_validate(_each_text(body.model_dump(), visible_line))


def _read_retry_after(answer: HTTPResponse) -> float | None:
    """RFC 9110 10.2.3: seconds, for which some services give fractions, or a moment."""
    given = answer.headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(given):
        return float(given)
    moment = _read_moment(given)
    if moment is None:
        return None
    # A moment is told by the clock of who answered, so it is compared with that one where it is told.
    answered_at = _read_moment(answer.headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (moment - answered_at).total_seconds())


def _read_moment(given: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(given)
    except (OverflowError, TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
