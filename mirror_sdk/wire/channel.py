"""The models of the notification channel (E4). Source: specification 2.3 and E4; wire.md 4."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from mirror_sdk.wire.model import Timestamp, WireModel

_WORDS = {"true": True, "false": False}


def _read_boolean(value: object) -> object:
    return _WORDS.get(value.lower(), value) if isinstance(value, str) else value


def _read_number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10 else value


# Programs for the public API also send these values as strings.
_Boolean = Annotated[
    bool,
    BeforeValidator(_read_boolean),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "string", "enum": ["true", "false"]}]}),
]
_ChunkSize = Annotated[
    int,
    Field(ge=1, le=10000),
    BeforeValidator(_read_number),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": 10000},
                {"type": "string", "pattern": "^(?:[1-9][0-9]{0,3}|10000)$"},
            ]
        }
    ),
]


class SerializationConfig(WireModel):
    """The optional members of notifications. By default, all are off.

    With ``include_seq``, an extension of the specification, each entry contains its number in the notification log.
    Sort the entries by this number to get all kinds of entries in the order in which they happened.

    Attributes:
        include_timestamp: Whether entries contain the time of the change.
        include_uid: Whether entries contain a unique id.
        include_original_ep: Whether entries contain the endpoint name as well as the device id.
        deregistrations_as_object: Whether a deregistered device is sent as ``{"ep": "<device id>"}`` instead of only
            its id.
    """

    include_timestamp: _Boolean = False
    include_uid: _Boolean = False
    include_original_ep: _Boolean = False
    deregistrations_as_object: _Boolean = False
    include_seq: _Boolean = False


class Serialization(WireModel):
    """The serialization of notifications.

    Attributes:
        type: The version of the format. Only ``v2`` exists.
        max_chunk_size: The maximum number of entries in a message.
        cfg: The optional members of each entry.
    """

    type: Literal["v2"] = "v2"
    max_chunk_size: _ChunkSize = 10000
    # Created only when needed, because the first instance builds the validator of the model.
    cfg: SerializationConfig = Field(default_factory=SerializationConfig)


MAX_CALLBACK_CHARACTERS = 400
_NO_ADDRESS = "not an address that can be called; write it like https://app.example.com/callback"
_URL_PATTERN = r"^[Hh][Tt][Tt][Pp][Ss]?://[!-~]+$"
_HEADER_NAME_PATTERN = r"^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$"
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
_HEADERS_OF_A_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that only the server may set: host, body length and headers for the next hop (RFC 9110 7.6.1).

If applications could set them, a call could differ from the one that was checked.
"""


def is_connection_header(name: str) -> bool:
    """Return whether only the server may set a header. An underscore counts as a hyphen, as in many web servers."""
    return name.lower().replace("_", "-") in _HEADERS_OF_A_CONNECTION


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        # Python checks the port only when this attribute is read.
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{_NO_ADDRESS} ({error})") from None
    if not parts.hostname or not re.fullmatch(_URL_PATTERN, url):
        raise ValueError(_NO_ADDRESS)
    if port == 0:
        raise ValueError("port 0 is not valid; use the port of your application")
    return url


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    seen: set[str] = set()
    for name, value in headers.items():
        if not re.fullmatch(_HEADER_NAME_PATTERN, name):
            raise ValueError(f"{name!r} is not a header name; use letters, digits and -")
        if is_connection_header(name):
            raise ValueError(f"{name} is set by the server; remove this header")
        if name.lower() in seen:
            raise ValueError(f"{name} occurs twice, with different case; pass it once")
        seen.add(name.lower())
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(
                f"the value of {name} is not a valid header value; use printable ASCII without leading or trailing"
                " spaces"
            )
    return headers


class CallbackRegistration(WireModel):
    """The webhook that an application registers.

    The URL, the header names and the header values may have at most 400 characters in total.

    Attributes:
        url: The http or https URL to which the server sends notifications.
        headers: Headers that the server sends with each message. Headers of the connection, such as ``Host`` and
            ``Content-Length``, are not allowed.
        serialization: The format of notifications. By default, entries have no optional members.
    """

    url: Annotated[
        str,
        Field(max_length=MAX_CALLBACK_CHARACTERS, json_schema_extra={"pattern": _URL_PATTERN}),
        AfterValidator(_check_url),
    ]
    headers: (
        Annotated[
            dict[str, str],
            Field(json_schema_extra={"propertyNames": {"pattern": _HEADER_NAME_PATTERN}}),
            AfterValidator(_check_headers),
        ]
        | None
    ) = None
    serialization: Serialization | None = None

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        length = len(self.url) + sum(len(name) + len(value) for name, value in (self.headers or {}).items())
        if length > MAX_CALLBACK_CHARACTERS:
            raise ValueError(f"URL and headers have {length} characters; {MAX_CALLBACK_CHARACTERS} is the limit")
        return self


class WebsocketRegistration(WireModel):
    """The options of a websocket channel.

    Attributes:
        serialization: The format of notifications. By default, entries have no optional members.
    """

    serialization: Serialization | None = None


class WebsocketChannel(WireModel):
    """A websocket channel.

    Attributes:
        status: Whether a websocket is connected to the channel.
        queue_size: The number of log entries that have not been delivered yet.
    """

    status: Literal["connected", "disconnected"]
    queue_size: int


class Channel(WireModel):
    """The channel that delivers the notifications of this key.

    ``backlog`` is the number of entries that a webhook or a websocket has not delivered yet. The other members, except
    for ``delivery_mechanism``, belong to webhooks. ``failures`` is the number of failed calls since the last success.
    Only the operator of the server can see the reason for a failure.

    Attributes:
        delivery_mechanism: ``CALLBACK`` for a webhook, ``LONG_POLLING`` or ``WEBSOCKET``.
        url: The URL of the webhook.
        last_error: A message that says that the last call failed, and where the operator finds the reason. Absent after
            a success.
        last_success_at: The time at which a message was last delivered.
        next_attempt_at: The time at which the server will send the failed message again. Absent after a success.
    """

    delivery_mechanism: Literal["CALLBACK", "LONG_POLLING", "WEBSOCKET"]
    url: str | None = None
    backlog: int | None = None
    failures: int | None = None
    last_error: str | None = None
    last_success_at: Timestamp | None = None
    next_attempt_at: Timestamp | None = None
