"""E4, the notification channel. Source: specification 2.3 and E4; wire.md 4."""

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


# Programs written for the public API send them as texts too.
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
    """The optional members of notifications; all are off by default.

    With ``include_seq``, an extension, each entry has its number in the notification log. Sorted by it, entries of all
    kinds are in the order in which they happened.

    Attributes:
        include_timestamp: Include the time of each change.
        include_uid: Include the identity of each notification.
        include_original_ep: Include the endpoint name next to the device's id.
        deregistrations_as_object: Send deregistered devices as ``{"ep": "<device id>"}`` instead of only their id.
    """

    include_timestamp: _Boolean = False
    include_uid: _Boolean = False
    include_original_ep: _Boolean = False
    deregistrations_as_object: _Boolean = False
    include_seq: _Boolean = False


class Serialization(WireModel):
    """The serialization of notifications.

    Attributes:
        type: The version of the format.
        max_chunk_size: The maximum number of notifications in a message.
        cfg: The optional members of notifications.
    """

    type: Literal["v2"] = "v2"
    max_chunk_size: _ChunkSize = 10000
    # Made when it is needed, because the first one builds its validator.
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
"""Headers that only the server may set: the host, the end of the body, and those for the next hop (RFC 9110 7.6.1).
If an application could set them, the call could differ from the one that was checked.
"""


def is_of_connection(name: str) -> bool:
    """Whether only the server may set a header; many receivers read an underscore as a hyphen."""
    return name.lower().replace("_", "-") in _HEADERS_OF_A_CONNECTION


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        # Python checks the port only when it is read.
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{_NO_ADDRESS} ({error})") from None
    if not parts.hostname or not re.fullmatch(_URL_PATTERN, url):
        raise ValueError(_NO_ADDRESS)
    if port == 0:
        raise ValueError("port 0 cannot be called")
    return url


def _check_headers(headers: dict[str, str]) -> dict[str, str]:
    seen: set[str] = set()
    for name, value in headers.items():
        if not re.fullmatch(_HEADER_NAME_PATTERN, name):
            raise ValueError(f"{name!r} is not a header name; use letters, digits and -")
        if is_of_connection(name):
            raise ValueError(f"{name} belongs to the server's connection; leave it out")
        if name.lower() in seen:
            raise ValueError(f"{name} is there twice, in other letters; pass it once")
        seen.add(name.lower())
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(
                f"the value of {name} cannot be that of a header; use printable ASCII without spaces at its ends"
            )
    return headers


class CallbackRegistration(WireModel):
    """The webhook an application registers; URL, header names and values have 400 characters together at most.

    Attributes:
        url: The URL to which notifications are sent: http or https.
        headers: Headers to send with each message; not those of the connection, such as Host or Content-Length.
        serialization: The serialization of notifications; without options by default.
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
        serialization: The serialization of notifications; without options by default.
    """

    serialization: Serialization | None = None


class WebsocketChannel(WireModel):
    """A websocket channel.

    Attributes:
        status: Whether its socket is open.
        queue_size: The number of log entries that are not delivered yet.
    """

    status: Literal["connected", "disconnected"]
    queue_size: int


class Channel(WireModel):
    """The channel that delivers the notifications of this key.

    Only a webhook has members other than the mechanism and ``backlog``. ``backlog`` is the number of undelivered
    entries of a webhook or a websocket, ``failures`` the number of failed calls since the last success. Only the
    operator of the server can see why a call failed.

    Attributes:
        delivery_mechanism: A webhook, long polling or a websocket.
        url: The URL of the webhook.
        last_error: A note that the last call failed, and where the operator finds the reason; absent after a success.
        last_success_at: When a message was last delivered.
        next_attempt_at: When the message is sent again; absent after a success.
    """

    delivery_mechanism: Literal["CALLBACK", "LONG_POLLING", "WEBSOCKET"]
    url: str | None = None
    backlog: int | None = None
    failures: int | None = None
    last_error: str | None = None
    last_success_at: Timestamp | None = None
    next_attempt_at: Timestamp | None = None
