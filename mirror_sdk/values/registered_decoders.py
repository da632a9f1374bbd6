"""Decoders and encoders that programs register for their own content types."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from inspect import signature
from typing import TypeAlias

from mirror_sdk._fork import Lock
from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.values.codec import Codec, DecodedValue, UnreadablePayload
from mirror_sdk.values.content_types import CONTENT_FORMATS, media_type
from mirror_sdk.values.lwm2m_types import HIGHEST_ID, plain_scalar, read_item
from mirror_sdk.values.value import InstanceValues, PythonValue

Decoder: TypeAlias = Callable[[bytes, str], PythonValue | InstanceValues]
"""A function that receives a payload and its resource path, and returns the value."""
Encoder: TypeAlias = Callable[[PythonValue, str], bytes]
"""A function that receives a checked value and its resource path, and returns the payload."""

_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")


_registered: Mapping[str, Codec] = {}
_registering = Lock()


def register_decoder(content_type: str, decode: Decoder, encode: Encoder | None = None) -> None:
    """Register functions that decode and optionally encode payloads of a content type of your own.

    From then on, all clients, tables, explanations and widgets of the process use them. Existing tables and recordings
    are not changed. Registering a content type again replaces its functions, so you can run a notebook cell twice. This
    function is thread-safe.

    The decoded value is converted to the declared type, so 21 becomes 21.0 if a float is declared. If ``decode`` raises
    an error or returns something other than a value, the value is the bytes and has the kind ``opaque``.
    ``Value.problem`` then contains the reason. One invalid payload therefore never breaks a table.

    Args:
        content_type: The content type, such as ``application/vnd.example+json``, in upper or lower case. It also
            matches payloads whose content type has parameters, except for a ``charset`` that is not UTF-8.
        decode: A function that receives the payload (``bytes``) and the resource path, in any thread. It returns a
            ``float``, ``int``, ``str``, ``bool``, ``datetime`` with a time zone or ``bytes``, or a dict of these. The
            keys of a dict are instance ids for a multiple resource, and resource ids for the path of an object
            instance.
        encode: A function that receives the checked value and the resource path, and returns the payload. Plans and
            ``write_value(..., content_type=...)`` use it. Without this function, you can only write ``bytes``.

    Raises:
        TypeError: ``decode`` or ``encode`` cannot be called with two arguments.
        ValueError: ``content_type`` has parameters, is not a content type, or is a built-in type (LwM2M, JSON, CBOR).

    >>> from mirror_sdk import register_decoder, unregister_decoder
    >>> from mirror_sdk.values import decode
    >>> register_decoder("application/vnd.example.tenths", lambda payload, path: int.from_bytes(payload) / 10)
    >>> decode(bytes([215]), "application/vnd.example.tenths", "/3303/0/5700").python
    21.5
    >>> unregister_decoder("application/vnd.example.tenths")
    """
    global _registered  # noqa: PLW0603 - replaced as a whole and never changed, because other threads read it
    for name, function in (("decode", decode), ("encode", encode)):
        if not callable(function) and (name, function) != ("encode", None):
            raise TypeError(f"{name}={function!r} cannot be called; pass a function")
        if function is not None and not _accepts_two_arguments(function):
            first = "the payload" if name == "decode" else "the value"
            raise TypeError(f"{name}={function!r} does not take two arguments; pass a function of {first} and the path")
    key = _key(content_type)
    if key in CONTENT_FORMATS.values():
        raise ValueError(
            f"content_type={content_type!r} is read by mirror_sdk itself ({key}); register a content type of your own,"
            " such as application/vnd.example+json"
        )
    codec = Codec(_reader(key, decode), None if encode is None else _writer(key, encode))
    with _registering:
        _registered = {**_registered, key: codec}


def unregister_decoder(content_type: str) -> None:
    """Remove the decoder of a content type, for example at the end of a test. Its payloads become opaque again.

    Args:
        content_type: The registered content type.

    Raises:
        ValueError: No decoder is registered for this content type.
    """
    global _registered  # noqa: PLW0603 - replaced as a whole, as above
    key = _key(content_type)
    with _registering:
        if key not in _registered:
            raise ValueError(f"content_type={content_type!r} has no registered decoder; register_decoder() adds one")
        _registered = {name: codec for name, codec in _registered.items() if name != key}


def registered_codec(name: str) -> Codec | None:
    """Return the registered codec of a content type, or ``None``. The name is in lower case and without parameters."""
    return _registered.get(name)


def _accepts_two_arguments(function: Callable[..., object]) -> bool:
    try:
        signature(function).bind(b"", "")
    except ValueError:
        return True  # some functions written in C have no signature that could be checked
    except TypeError:
        return False
    return True


def _key(content_type: object) -> str:
    name = content_type.strip().lower() if isinstance(content_type, str) else ""
    if not _MEDIA_TYPE.fullmatch(name):
        raise ValueError(
            f"content_type={content_type!r} is not a content type without parameters; write it like"
            " application/vnd.example+json"
        )
    return media_type(name)


def _reader(name: str, decode: Decoder) -> Callable[[bytes, str], Mapping[str, DecodedValue]]:
    def read(raw: bytes, path: str) -> dict[str, DecodedValue]:
        try:
            value = decode(raw, path)
            # The value may be an object of any class, whose methods can fail, too.
            if not isinstance(value, Mapping):
                return {path: _typed(name, path, value, raw)}
            values = dict(value.items())
            if all(type(number) is int and 0 <= number <= HIGHEST_ID for number in values):
                parts = {f"{path}/{number}": one for number, one in values.items()}
                return {found: _typed(name, found, one, raw) for found, one in parts.items()}
        except Exception as exc:
            # All errors are caught, because the other rows of the table are still needed.
            raise UnreadablePayload(f"the decoder of {name} failed: {_described(exc)}") from exc
        raise UnreadablePayload(f"the decoder of {name} returned a dict whose keys are not ids from 0 to {HIGHEST_ID}")

    return read


def _typed(name: str, path: str, value: object, raw: bytes) -> DecodedValue:
    item = plain_scalar(value)
    definition = lookup(path)
    reading = read_item(item, path, raw)
    if reading.problem is None:
        return reading
    if definition is None or not isinstance(item, PythonValue | Decimal):
        fault = "is not a value; return a finite number, a string, a boolean, an aware datetime or bytes"
    else:
        fault = f"cannot be read as the type {definition.type}"
    return reading._replace(problem=f"the decoder of {name} returned {reprlib.repr(value)}, which {fault}")


def _writer(name: str, encode: Encoder) -> Callable[[PythonValue, str, ResourceType | None], bytes]:
    def write(value: PythonValue, path: str, _: ResourceType | None) -> bytes:
        try:
            payload: object = encode(value, path)
            if isinstance(payload, bytes):
                return payload
            returned = reprlib.repr(payload)
        except Exception as exc:
            raise InvalidValue(f"{path}: the encoder of {name} failed for {value!r}: {_described(exc)}") from exc
        raise InvalidValue(f"{path}: the encoder of {name} returned {returned}; it has to return bytes")

    return write


def _described(error: Exception) -> str:
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # the method __str__ of an error can fail, too
        return type(error).__name__
