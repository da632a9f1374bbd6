"""The optional arguments of device requests. Source: wire.md 2."""

from __future__ import annotations

from numbers import Integral
from typing import TypedDict

from mirror_sdk._arguments import text as text_argument
from mirror_sdk.errors import InvalidValue
from mirror_sdk.resource import DesiredValue, ExpectedValue, Resource
from mirror_sdk.values import encode
from mirror_sdk.values.text_input import argument_value
from mirror_sdk.wire.device_requests import DEFAULT_CONTENT_TYPE, NEVER_WRITTEN

_MAX_REVISION = 2**63


class RequestOptions(TypedDict, total=False):
    """The optional members of a device request. For missing members and ``None``, the service has defaults."""

    payload: bytes | None
    content_type: str | None
    accept: str | None
    if_match: int | None


def to_write(
    path: str,
    value: object,
    text: str | None,
    content_type: str | None,
    *,
    allow_read_only: bool,
    if_match: ExpectedValue | None,
) -> RequestOptions:
    """Return the options of a write. ``text`` is a string that a person typed, instead of ``value``.

    Raises:
        InvalidValue: The value or the text does not match the declaration of the path, or both or neither of them were
            passed. Another cause is a path that is declared read-only, unless ``allow_read_only`` is set.
    """
    payload, content_type = encode(
        argument_value(value, text, path), path, content_type, allow_read_only=allow_read_only
    )
    revision = None if if_match is None else expected_revision(if_match)
    return {"payload": payload, "content_type": content_type, "if_match": revision}


def to_execute(argument: str | None) -> RequestOptions:
    """Return the options of an execute request.

    Raises:
        TypeError: The argument is not a string.
    """
    if argument is None:
        return {}
    return {"payload": text_argument("argument", argument).encode(), "content_type": DEFAULT_CONTENT_TYPE}


def expected_revision(if_match: ExpectedValue) -> int:
    """Return the revision of the desired value that a write expects, or 0 if nothing was ever written.

    Raises:
        TypeError: ``if_match`` is not a revision, a ``Resource`` or a ``DesiredValue``.
        InvalidValue: The service sent no revision, or the number is not a valid revision.
    """
    if isinstance(if_match, Resource):
        return NEVER_WRITTEN if if_match.desired is None else expected_revision(if_match.desired)
    if isinstance(if_match, DesiredValue):
        if if_match.revision is None:
            raise InvalidValue("if_match: this service has no revisions of desired values; write without if_match")
        return if_match.revision
    return _read_revision(if_match)


def _read_revision(if_match: object) -> int:
    # Integers of NumPy, from a column of revisions, are Integral, too.
    if isinstance(if_match, bool) or not isinstance(if_match, Integral):
        raise TypeError(
            f"if_match={if_match!r} must be a revision, a Resource or a DesiredValue; 0 means that the resource was"
            " never written"
        )
    if not 0 <= int(if_match) < _MAX_REVISION:
        raise InvalidValue(f"if_match={if_match} is not a revision; read it from device[path].desired.revision")
    return int(if_match)
